"""Pools that the advice was not made from: what can be advised was run there, and the page counts each comparison."""

import importlib
from types import ModuleType

import pytest
import tree

import make_advice
from hedgerow.advice.rules import RULES


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """experiments/unseen.py."""
    monkeypatch.syspath_prepend(str(tree.ROOT / "experiments"))
    return importlib.import_module("unseen")


def test_every_strategy_that_can_be_advised_was_run(script: ModuleType) -> None:
    assert set(make_advice.read_unseen()["pools"]) == set(script.POOLS)
    for unit, arms in (("pair", script.PAIR_ARMS), ("row", script.ROW_ARMS)):
        named = {arm.name for arm in arms}
        advised = {
            make_advice.name_arm(rule.strategy, rule.options)
            for rule in RULES
            if unit in rule.units and rule.strategy is not None
        }
        assert advised <= named
        pools = [given for given in make_advice.read_unseen()["pools"].values() if given["unit"] == unit]
        assert pools
        assert all(set(given["curves"]) == named for given in pools)
        assert all(len(curve) == given["trials"] >= 10 for given in pools for curve in given["curves"].values())


def test_each_comparison_is_counted_once() -> None:
    listed = make_advice.list_comparisons()
    assert len({(pool, ours, theirs) for pool, _, ours, theirs in listed}) == len(listed)
    assert f"{len(listed)} comparisons of areas" in make_advice.PAGE.read_text()
    compared = make_advice.compare_unseen()
    assert sum(map(len, compared.values())) == len(listed)
    assert all(one.low < one.mean < one.high for found in compared.values() for one in found.values())


def test_rows_without_numbers_stay_when_they_are_scaled(script: ModuleType) -> None:
    assert script.scale([[3.0, 4.0], [0.0, 0.0]]).tolist() == [[0.6, 0.8], [0.0, 0.0]]
