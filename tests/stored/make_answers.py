"""Answers of small cases, for `answers.json` and `control_answers.json`: new code must not change what a seed gives.

Run `python tests/stored/make_answers.py` to write them again; do that only where a release means to change them.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

import hedgerow as hr

ANSWERS = Path(__file__).with_name("answers.json")
CONTROL_ANSWERS = Path(__file__).with_name("control_answers.json")
CONTROLS = {"cluster-margin-shuffled", "uniform-candidates", "hedge-shuffled"}
PAIR_CONTROLS = {
    *CONTROLS, "cluster-margin-pairs-shuffled", "uniform-candidate-pairs", "cluster-margin-informed", "random-informed",
}  # fmt: skip


def make_pool() -> dict[str, Any]:
    """900 rows in 90 groups, 12 numbers each, and probabilities of 5 classes."""
    rng = np.random.default_rng(7)
    centers = np.repeat(rng.normal(size=(90, 12)), 10, axis=0)
    embeddings = (centers + 0.15 * rng.normal(size=centers.shape)).astype(np.float32)
    probabilities = rng.dirichlet(np.full(5, 0.6), 900).astype(np.float32)
    return {"embeddings": embeddings, "probabilities": probabilities, "labeled": np.flatnonzero(rng.random(900) < 0.1)}


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).astype("<i8").tobytes()).hexdigest()[:16]


def cluster_answers(pool: dict[str, Any]) -> dict[str, Any]:
    cases = {
        "exact": {"method": "exact"},
        "certified": {"method": "certified"},
        "multiround": {"method": "multiround"},
        "assign": {"method": "assign", "subset": 0.3},
        "exact, sqeuclidean": {"method": "exact", "metric": "sqeuclidean"},
        "certified, sqeuclidean": {"method": "certified", "metric": "sqeuclidean"},
        "exact, euclidean": {"method": "exact", "metric": "euclidean"},
        "certified, threshold": {"method": "certified", "threshold": 0.05},
    }
    found = {}
    for name, options in cases.items():
        size = {} if "threshold" in options else {"average_size": 8}
        made = hr.cluster(pool["embeddings"], seed=3, **size, **options)
        found[name] = {
            "n_clusters": made.n_clusters, "threshold": round(made.threshold, 6), "labels": digest(made.labels)
        }  # fmt: skip
    return found


def select_answers(pool: dict[str, Any]) -> dict[str, Any]:
    strategies = {name: name for name in hr.STRATEGIES if name not in CONTROLS} | {
        "cluster-margin, factor 3": hr.ClusterMargin(margin_factor=3.0),
        "cluster-margin, power 1": hr.ClusterMargin(power=1.0),
        "stochastic-margin, power 2": hr.StochasticMargin(power=2.0),
        "badge, 2 parts": hr.Badge(partitions=2),
        "coreset, 2 parts": hr.CoreSet(partitions=2),
    }
    return select_rows(strategies, pool)


def select_rows(strategies: dict[str, Any], pool: dict[str, Any]) -> dict[str, Any]:
    clusters = hr.cluster(pool["embeddings"], average_size=8, method="exact")
    return {
        name: hr.select(strategy, 40, clusters=clusters, seed=5, **pool).rows.tolist()
        for name, strategy in strategies.items()
    }


def pair_answers(pool: dict[str, Any]) -> dict[str, Any]:
    strategies = {name: name for name in hr.PAIR_STRATEGIES if name not in PAIR_CONTROLS} | {
        "cluster-margin-pairs, all options": hr.ClusterMarginPairs(
            margin_factor=4.0, power=1.0, by_class=True, per_row=2, class_quota=12
        ),
        **{f"cluster-margin, {how}": hr.ClusterMargin(row_margin=how) for how in ("mean", "top2", "top2-all")},
    }
    return select_pairs(strategies, pool)


def select_pairs(strategies: dict[str, Any], pool: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(8)
    index = np.sort(rng.choice(900 * 5, 3000, replace=False))
    pairs = hr.Pairs(index // 5, index % 5)
    probabilities = rng.random((900, 5)).astype(np.float32)
    given = {"pairs": pairs, "probabilities": probabilities, "embeddings": pool["embeddings"]}
    given["clusters"] = hr.cluster(pool["embeddings"], average_size=8, method="exact")
    given["labeled"] = np.flatnonzero(rng.random(3000) < 0.1)
    return {
        name: hr.select_pairs(strategy, 40, seed=5, **given).index.tolist() for name, strategy in strategies.items()
    }


def make_answers() -> dict[str, Any]:
    pool = make_pool()
    margins = hr.margins(pool["probabilities"])
    return {
        "margins": [round(float(margin), 6) for margin in margins[:20]],
        "average_precision": round(hr.average_precision(pool["probabilities"][:, 0] > 0.3, margins), 9),
        "cluster": cluster_answers(pool),
        "select": select_answers(pool),
        "select_pairs": pair_answers(pool),
    }


def control_answers() -> dict[str, Any]:
    pool = make_pool()
    by_margin = ("cluster-margin-informed", "cluster-margin-shuffled", "uniform-candidates")
    literal = {f"{name}, top2-all": hr.PAIR_STRATEGIES[name](row_margin="top2-all") for name in by_margin}
    return {
        "select": select_rows({name: name for name in sorted(CONTROLS)}, pool),
        "select_pairs": select_pairs({name: name for name in sorted(PAIR_CONTROLS)} | literal, pool),
    }


if __name__ == "__main__":
    ANSWERS.write_text(json.dumps(make_answers(), indent=1) + "\n")
    CONTROL_ANSWERS.write_text(json.dumps(control_answers(), indent=1) + "\n")
