"""Draw docs/figures/walk.svg, the picture at the top of the README: a round of Cluster-Margin on real data.

    python docs/draw_walk.py

The pool is scikit-learn's digits, placed by t-SNE. A model trained on 100 labels gives the margins; clusters and batch
are those of `hedgerow.cluster` and `hedgerow.select`. Run by hand: t-SNE differs a little between machines.
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import TSNE

import hedgerow as hr

FIGURE = Path(__file__).with_name("figures") / "walk.svg"
SHOWN, LABELED, BATCH, AVERAGE_SIZE = 900, 100, 36, 25
WIDTH, HEIGHT, SIDE, TALL = 720, 430, 176, 150  # of the picture, and of one panel
PANELS = {"pool": (8, 140), "clusters": (272, 34), "margins": (272, 250), "batch": (536, 140)}
TITLES = {
    "pool": "pool",
    "clusters": "clusters, once",
    "margins": "low margins, every round",
    "batch": "batch to label",
}
LIGHT = "--page:#fff;--ink:#1f2328;--faint:#59636e;--dot:#b3bcc6;--line:#d8dee4;--hot:#d1480b;"
DARK = "--page:#14171c;--ink:#e6e9ee;--faint:#9aa4b1;--dot:#5b6572;--line:#343a44;--hot:#ff8a4c;"
# Colors of clusters: legible on both pages.
HUES = ("#2f7fd6", "#1f9d74", "#b8860b", "#9b59d0", "#d0567f", "#2a9db0", "#7f8c3a", "#8a6d5b")


def main() -> None:
    """Compute a round, and draw it."""
    rng = np.random.default_rng(3)
    images, digits = load_digits(return_X_y=True)
    chosen = rng.permutation(len(images))[:SHOWN]
    images, digits = images[chosen] / 16, digits[chosen]
    labeled = rng.permutation(SHOWN)[:LABELED]
    model = LogisticRegression(max_iter=2000).fit(images[labeled], digits[labeled])
    clusters = hr.cluster(images, average_size=AVERAGE_SIZE, metric="sqeuclidean")
    margins = hr.margins(model.predict_proba(images))
    batch = hr.select("cluster-margin", BATCH, margins=margins, clusters=clusters, labeled=labeled, seed=0)
    places = TSNE(perplexity=30, random_state=0).fit_transform(images)
    places = (places - places.min(axis=0)) / np.ptp(places, axis=0)
    FIGURE.write_text(compose(places, clusters.labels, margins, batch.rows))


def compose(places, clusters, margins, rows) -> str:
    """The picture as SVG."""
    shade = np.digitize(margins, np.quantile(margins, [0.06, 0.15, 0.3]))
    inside = {
        "pool": dots(places, 3.2, "var(--dot)"),
        "clusters": "".join(dots(places[clusters % 8 == hue], 3.2, HUES[hue]) for hue in range(8)),
        "margins": dots(places, 3.2, "var(--dot)")
        + "".join(dots(places[shade == step], 4.4, "var(--hot)", opacity) for step, opacity in ((2, 0.3), (1, 0.6))),
        "batch": dots(places, 3.2, "var(--dot)") + dots(places[rows], 7.5, "var(--hot)"),
    }
    inside["margins"] += dots(places[shade == 0], 5, "var(--hot)")
    style = f":root{{{LIGHT}}}@media(prefers-color-scheme:dark){{:root{{{DARK}}}}}"
    style += (
        "text{font:15px system-ui,sans-serif;fill:var(--ink);text-anchor:middle}.note{font-size:13px;fill:var(--faint)}"
    )
    style += "path,rect{fill:none}.arrow{stroke:var(--faint);stroke-width:2}.dots{stroke-linecap:round}"
    label = "A pool is clustered once; each round, low margins spread over the clusters give the batch to label"
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">',
        f'<style>{style}</style><rect width="100%" height="100%" rx="6" style="fill:var(--page)"/>',
        '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">',
        '<path d="M0 0 10 5 0 10z" style="fill:var(--faint)"/></marker>',
        *(panel(name, inside[name]) for name in PANELS),
        *ARROWS,
        *NOTES,
        "</svg>\n",
    ])  # fmt: skip


def dots(places, width: float, color: str, opacity: float = 1) -> str:
    """Points of the unit square as one path of dots, in the coordinates of a panel."""
    x, y = 10 + places[:, 0] * (SIDE - 20), 10 + places[:, 1] * (TALL - 20)
    path = "".join(f"M{a:.0f} {b:.0f}h0" for a, b in zip(x, y, strict=True))
    return f'<path class="dots" d="{path}" style="stroke:{color};stroke-width:{width};opacity:{opacity}"/>'


def panel(name: str, inside: str) -> str:
    """A framed panel with its title."""
    x, y = PANELS[name]
    frame = f'<rect width="{SIDE}" height="{TALL}" rx="8" style="stroke:var(--line)"/>'
    return f'<g transform="translate({x} {y})"><text x="{SIDE / 2}" y="-9">{TITLES[name]}</text>{frame}{inside}</g>'


def arrow(path: str) -> str:
    return f'<path class="arrow" d="{path}" marker-end="url(#tip)"/>'


def note(x: int, y: int, text: str) -> str:
    return f'<text class="note" x="{x}" y="{y}">{text}</text>'


ARROWS = (
    arrow("M188 185C228 180 232 112 266 109"),
    arrow("M188 245C228 250 232 322 266 325"),
    arrow("M452 109C492 112 492 180 530 187"),
    arrow("M452 310C492 306 492 252 530 243"),
    arrow("M624 296V372H456"),
)
NOTES = (
    note(206, 100, "embeddings"),
    note(200, 344, "probabilities"),
    note(586, 392, "people label it,"),
    note(586, 409, "the model learns"),
)


if __name__ == "__main__":
    main()
