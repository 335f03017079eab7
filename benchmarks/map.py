"""Goal: the density of ten million rows, with layers, as the page gets it, in 0.3 seconds and 300 KB.

A pool of 10,000,000 x 64 in memory, its map drawn by one thread. A view: rows counted in 65,536 bins, examples, and
layers of 100,000 picked, 1,000,000 labeled and 10,000 disputed rows, as JSON. Lasso: 120 corners. All of it on one
thread, best of the repeats; reading layers from the database is not included, because they are kept until they change.
"""

import json
from unittest.mock import patch

import numpy as np

from hedgerow.campaign.atlas import Atlas, Marks, Window
from hedgerow.campaign.layouts import SIDE, make_layout
from hedgerow.desk.maps import describe_view
from hedgerow.kernels import freeze
from hedgerow.pool import open_matrix
from hedgerow.progress import ignore
from pools import make_pool
from runner import arguments, measure, save

SEED = 0
WIDTH = 64
LAYERS = {"picked": 0.01, "labeled": 0.1, "disputed": 0.001}


def make_marks(n, rng):
    """Layers at random, and no retired rows."""
    layers = {name: np.sort(rng.choice(n, int(share * n), replace=False)) for name, share in LAYERS.items()}
    return Marks((n,), freeze(np.zeros(n, np.bool_)), layers)


def make_ring(radius):
    """120 corners around the middle of the map."""
    angles = np.arange(120) * np.pi / 60
    return (SIDE // 2 + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.int64)


def look(atlas, window):
    """A view as it is sent."""
    return json.dumps(describe_view(atlas.view(window)), separators=(",", ":"))


def main():
    options = arguments(__doc__)
    n, repeats = (20_000, 1) if options.quick else (10_000_000, 5)
    embeddings = open_matrix(make_pool(n, WIDTH, seed=SEED), "embeddings")
    made = []
    drawing = measure(lambda: made.append(make_layout(embeddings, ignore)), 1)
    marks = make_marks(n, np.random.default_rng(SEED))
    middle = SIDE // 2
    windows = {"all": Window(), "a sixteenth": Window(middle, middle, middle + SIDE // 4, middle + SIDE // 4)}
    with patch.object(Atlas, "_require", lambda _: (made[0], marks)):
        atlas = Atlas(None, None, None)
        atlas.view(), atlas.find_near(0, 0, 1), atlas.find_inside(make_ring(10))  # compile
        results = {"drawing the map": drawing}
        for name, window in windows.items():
            took = measure(lambda window=window: look(atlas, window), repeats)
            size = len(look(atlas, window)) / 1000
            results[f"view of {name}"] = took | {"kb_sent": size, "rows": atlas.view(window).within}
        results["the nearest row"] = measure(lambda: atlas.find_near(middle, middle, 500), repeats)
        for name, radius in {"small lasso": SIDE // 20, "lasso around all": SIDE}.items():
            took = measure(lambda radius=radius: atlas.find_inside(make_ring(radius)), repeats)
            results[name] = took | {"rows": atlas.find_inside(make_ring(radius))[0]}
    save("map", seed=SEED, settings={"n": n, "width": WIDTH, "quick": options.quick}, results=results, options=options)


if __name__ == "__main__":
    main()
