"""The benchmark that chooses how models of pairs are trained: what it trains on, what it chooses, what recipes have."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import tree

import pair_training
from hedgerow.experiments import MultiLabel, load_recipe
from hedgerow.experiments.architectures import Perceptron
from hedgerow.models import Training
from hedgerow.pairs import Pairs
from hedgerow.tasks import Annotated

RESULTS = sorted((tree.ROOT / "benchmarks" / "results").glob("pair_training_*.json"))
CLASSES = 3
SAVES_TIME = {"wordlangs-million": 0.006}  # what its training costs, as its page says


def make_bench(draws: int = 2) -> pair_training.Bench:
    """A pool of 60 rows with three pairs each; the test set cannot be read."""
    rng = np.random.default_rng(0)
    pairs = Pairs(np.repeat(np.arange(60), CLASSES), np.tile(np.arange(CLASSES), 60))
    features = rng.normal(size=(60, 5)).astype(np.float32)
    pool = Annotated(features, pairs, features[pairs.rows, pairs.classes] > 0)
    dataset = MultiLabel("pairs", ("a", "b", "c"), pool, Annotated(None, Pairs([], []), np.zeros(0, bool)))
    model = Perceptron((4,), training=Training(steps=3, minibatch=10))
    sizes = {"seed_size": 20, "batch_size": (10,), "rounds": 3}
    recipe = SimpleNamespace(model=model, metric="average_precision", **sizes)
    return pair_training.Bench(recipe, dataset, None, draws)


def test_models_are_measured_on_rows_that_they_were_not_trained_on() -> None:
    bench = make_bench()
    assert bench.held_out == 12
    assert len(bench.task.test.features) == 12
    assert len(bench.task.test.pairs) == 12 * CLASSES
    held = {tuple(row) for row in bench.task.test.features}
    trained = bench.task.features[bench.task.pairs.rows[bench.free]]
    assert held.isdisjoint(tuple(row) for row in trained)
    assert len(bench.free) == (60 - 12) * CLASSES
    np.testing.assert_array_equal(bench.sizes, [20, 30, 40, 50])


def test_a_setting_is_measured_as_its_rounds_would_train() -> None:
    bench = make_bench()
    given: dict[str, Any] = {"epochs": 2, "learning_rate": 0.05, "dropout": 0.0}
    first, previous = (bench.measure(given | {"start": start}) for start in ("first", "previous"))
    assert first["seed_set"] == previous["seed_set"]
    assert first["final"] == first["one_go"] == previous["one_go"] != previous["final"]
    assert first["trained"] == previous["trained"] == 2 * (20 + 30 + 40 + 50)
    assert first["error"] > 0
    assert bench.measure(given | {"start": "first"}) is first  # not measured again
    assert make_bench(draws=1).measure(given | {"start": "first"})["error"] is None


def record(trained: int, seed_set: float, final: float, start: str = "first") -> dict[str, Any]:
    return {"trained": trained, "seed_set": seed_set, "final": final, "start": start}


def test_the_cheapest_of_those_that_are_close_is_chosen() -> None:
    best, close, far = record(400, 0.6, 0.8), record(200, 0.5985, 0.8), record(100, 0.59, 0.8)
    assert pair_training.choose([best, close, far]) is close
    tied = record(200, 0.599, 0.8, "previous")
    assert pair_training.choose([best, tied, close]) is close
    assert pair_training.choose([best, tied]) is tied


def test_the_search_varies_some_options_at_a_time() -> None:
    class Fake:
        found: ClassVar[dict[Any, Any]] = {}

        def measure(self, setting: dict[str, Any]) -> dict[str, Any]:
            score = setting["a"] + 10 * setting["b"] - (setting["start"] == "previous")
            made = setting | record(1, score, score, setting["start"])
            return self.found.setdefault(tuple(setting.values()), made)

    stages = ({"a": (1, 2)}, {"b": (0, 1)}, {"start": ("previous", "first")})
    records = pair_training.search(Fake(), {"a": 0, "b": 0, "start": "first"}, stages)
    assert [(one["a"], one["b"], one["start"]) for one in records] == [
        (0, 0, "first"),
        (1, 0, "first"),
        (2, 0, "first"),
        (2, 1, "first"),
        (2, 1, "previous"),
    ]
    assert [(one["a"], one["b"], one["start"]) for one in records if one["chosen"]] == [(2, 1, "first")]


def test_what_was_measured_before_is_not_measured_again(tmp_path: Path) -> None:
    path, settings = tmp_path / "earlier.json", {"recipe": "it", "labels": [1, 2]}
    assert pair_training.read_earlier(path, settings, ("a",)) == {}
    path.write_text(json.dumps({"settings": settings | {"more": 1}, "results": [{"a": 1, "final": 2, "chosen": True}]}))
    assert pair_training.read_earlier(path, settings, ("a",)) == {(("a", 1),): {"a": 1, "final": 2}}
    assert pair_training.read_earlier(path, settings | {"labels": [1, 3]}, ("a",)) == {}


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_recipes_train_as_was_chosen_on_rows_of_their_pools(path: Path) -> None:
    found = json.loads(path.read_text())
    model = load_recipe(found["settings"]["recipe"]).model
    options = pair_training.SEARCHES[type(model).__name__][0]
    settings = [{name: one[name] for name in options} for one in found["results"]]
    mine = [
        pair_training.rate(one)
        for one, setting in zip(found["results"], settings, strict=True)
        if pair_training.change(model, setting) == model
    ]
    assert len(mine) == 1
    cost = SAVES_TIME.get(found["settings"]["recipe"], pair_training.CLOSE)
    assert mine[0] > max(map(pair_training.rate, found["results"])) - cost
    assert [one["chosen"] for one in found["results"]].count(True) == 1
