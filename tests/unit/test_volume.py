"""The volume-based sampler: distinct rows that separate members of the version space."""

import numpy as np
import pytest

from hedgerow.theory.algorithm import learn, start
from hedgerow.theory.cones import measure_diameter
from hedgerow.theory.distributions import draw_directions, make_distribution
from hedgerow.theory.volume import Volume, cover


def test_the_pick_that_separates_most_is_first():
    sides = np.array([[1, 1, 1, 1], [1, 1, 1, -1], [1, 1, -1, -1]], float)
    distances = np.ones((4, 4)) - np.eye(4)
    assert cover(sides, distances, 2, np.random.default_rng(0)).tolist() == [2, 1]  # 4 pairs, then 1 of 2
    far = distances.copy()
    far[3], far[:, 3] = 9, 9
    far[3, 3] = 0
    assert cover(sides, far, 1, np.random.default_rng(0)).tolist() == [1]


def test_when_all_are_separated_the_cover_begins_again():
    sides = np.array([[1, -1], [1, -1], [1, 1]], float)
    distances = np.array([[0.0, 1.0], [1.0, 0.0]])
    assert set(cover(sides, distances, 2, np.random.default_rng(0)).tolist()) == {0, 1}
    assert sorted(cover(sides, distances, 3, np.random.default_rng(0)).tolist()) == [0, 1, 2]


@pytest.mark.parametrize("d", [2, 5])
def test_it_leaves_less_than_uniform_choices(d):
    law, ratios = make_distribution("gaussian", d), []
    for seed in range(8):
        rng = np.random.default_rng([d, seed])
        truth = draw_directions(1, d, rng)[0]
        state = learn(start(d, rng), law.draw(8 * d, rng), truth)
        pool = law.draw_band(state.w, measure_diameter(state.cone).low, 300, rng)
        rows = Volume(state.cone)(pool, 30, rng)
        assert len(set(rows.tolist())) == 30
        ours, theirs = (measure_diameter(learn(state, pool[some], truth).cone).low for some in (rows, np.arange(30)))
        ratios.append(ours / theirs)
    assert np.mean(ratios) < 0.8
