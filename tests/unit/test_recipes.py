"""Recipes: the shipped ones match the paper, and every mistake in a recipe is named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hedgerow.errors import InputError
from hedgerow.experiments import Arm, Recipe, list_recipes, load_recipe
from hedgerow.experiments.architectures import Perceptron
from hedgerow.experiments.recipes import parse_recipe, read_arm
from hedgerow.pairs import PAIR_STRATEGIES, ClusterMarginPairs
from hedgerow.rounds import Clustering, Plan
from hedgerow.strategies import STRATEGIES, Badge, ClusterMargin, CoreSet, Hedge, Margin, Random, StochasticMargin

WORDS = {"wordlangs", "wordlangs-million", "wordlangs-small", "wordlangs-typos"}
CONTROLS = {"wordlangs-distinct"}  # beside which another recipe is read
MULTILABEL = {"delicious", "bibtex", "tmc2007", "corel5k", "enron", "goemotions"}
PAPER = {"cifar10", "cifar100", "svhn", "cifar10-vgg16", "cifar100-vgg16", "svhn-vgg16"}


def make_tables(**changes: Any) -> dict[str, Any]:
    tables: dict[str, Any] = {
        "name": "small",
        "trials": 2,
        "seed_size": 30,
        "batch_size": 20,
        "rounds": 2,
        "dataset": {"name": "redundant-digits", "originals": 60},
        "model": {"kind": "perceptron", "hidden": [16], "training": {"steps": 20}},
        "strategies": [{"strategy": "margin"}, {"strategy": "cluster-margin", "margin_factor": 3}],
    }
    tables |= changes
    return {key: value for key, value in tables.items() if value is not None}


def test_the_shelf_holds_what_the_paper_and_its_ablations_need() -> None:
    others = {"ablation-badge", "ablation-clusters", "ablation-assign", "covtype", "sweep-digits"}
    assert {
        name for name in list_recipes() if not name.startswith("regimes-")
    } == PAPER | others | WORDS | CONTROLS | MULTILABEL


@pytest.mark.parametrize("name", list_recipes())
def test_every_shipped_recipe_is_read_and_tells_its_story(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.reproduces
    assert recipe.takes
    assert recipe.baseline in {arm.name for arm in recipe.strategies}
    assert recipe.describe()["strategies"]


@pytest.mark.parametrize("name", sorted(PAPER))
def test_the_papers_setting(name: str) -> None:
    recipe = load_recipe(name)
    assert (recipe.seed_size, recipe.batch_size, recipe.rounds, recipe.metric) == (10_000, (5_000,), 4, "accuracy")
    assert recipe.trials == 10
    chosen = {arm.name: arm.strategy for arm in recipe.strategies}
    if name == "svhn":  # the appendix's figure on partitions, and our control
        assert chosen.pop("badge, 10 partitions") == Badge(partitions=10)
        shuffled = STRATEGIES["cluster-margin-shuffled"](margin_factor=1.25)
        assert chosen.pop("cluster-margin, shuffled clusters") == shuffled
    partitions = 10 if name == "cifar100-vgg16" else 1
    assert chosen == {
        "cluster-margin": ClusterMargin(margin_factor=1.25),
        "margin": Margin(),
        "badge": Badge(partitions=partitions),
        "coreset": CoreSet(),
        "random": Random(),
        "stochastic-margin": StochasticMargin(),
    }
    assert {arm.clusters.average_size for arm in recipe.strategies} == {1.25}


def test_the_ablations_and_the_sweep() -> None:
    badge = {arm.name: arm.strategy for arm in load_recipe("ablation-badge").strategies}
    assert badge["badge, 1 partition"] == Badge(partitions=1)
    assert badge["badge, 10 partitions"] == Badge(partitions=10)
    methods = [arm.clusters.method for arm in load_recipe("ablation-clusters").strategies if "clusters" in arm.needs]
    assert methods == ["certified", "multiround", "assign"]
    for name in ("covtype", "sweep-digits"):
        arms = load_recipe(name).strategies
        assert {arm.strategy.margin_factor for arm in arms if "clusters" in arm.needs} == {1, 1.25, 3, 10}
    assert {5_000, 50_000} <= set(load_recipe("covtype").batch_size)


def test_a_recipe_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        'name = "mine"\ntrials = 1\nseed_size = 5\nbatch_size = [2, 4]\nrounds = 3\n'
        '[dataset]\nname = "redundant-digits"\n[model]\nkind = "perceptron"\nhidden = [8]\n'
        "[clusters]\naverage_size = 2\n"
        '[[strategies]]\nstrategy = "cluster-margin"\nname = "ours"\nclusters = { method = "exact" }\n'
    )
    recipe = load_recipe(path)
    assert recipe.batch_size == (2, 4)
    assert recipe.model == Perceptron(hidden=(8,))
    assert recipe.strategies == (Arm("ours", ClusterMargin(), Clustering(2.0, "exact", "cosine")),)
    assert recipe.baseline == "ours"
    assert recipe.plan(4) == Plan(5, 4, 3)


def change(part: str, **options: Any) -> dict[str, Any]:
    return {part: make_tables()[part] | options}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_row": 3}, "unknown key in the recipe 'batch_row': did you mean 'batch_size'"),
        ({"seed_rows": 3}, "the key 'seed_rows' in the recipe is now called 'seed_size': rename it"),
        ({"batch_rows": [3]}, "the key 'batch_rows' in the recipe is now called 'batch_size'"),
        (
            change("model", training={"batch_rows": 3}),
            r"the key 'batch_rows' in training in \[model\] is now called 'minibatch'",
        ),
        ({"trials": None}, "the key 'trials' is missing in the recipe"),
        ({"trials": 0}, "trials must be at least 1"),
        ({"trials": "ten"}, "trials in the recipe must be a whole number, got 'ten'"),
        ({"batch_size": []}, "batch_size must be a number of labels"),
        ({"batch_size": 40.0}, "batch_size in the recipe must be a whole number or a list of them, got 40.0"),
        ({"batch_size": "40"}, "batch_size in the recipe must be a whole number or a list of them, got '40'"),
        ({"batch_size": True}, "batch_size in the recipe must be a whole number, got True"),
        ({"name": 3}, "name in the recipe must be text"),
        ({"metric": "acuracy"}, "unknown metric 'acuracy': did you mean 'accuracy'"),
        ({"baseline": "random"}, "unknown baseline 'random': did you mean 'margin'|known: margin, cluster-margin"),
        ({"dataset": None}, r"has no table \[dataset\]"),
        ({"dataset": {}}, r"\[dataset\] needs a name: cifar10"),
        (change("dataset", name="cifar"), "unknown dataset name 'cifar': did you mean 'cifar"),
        (change("dataset", original=3), r"unknown key in \[dataset\] 'original': did you mean 'originals'"),
        (change("model", kind="perceptrons"), "unknown model kind 'perceptrons': did you mean 'perceptron'"),
        (change("model", hiden=[3]), r"unknown key in \[model\] 'hiden': did you mean 'hidden'"),
        (change("model", hidden=3), r"hidden in \[model\] must be a list, got 3"),
        (change("model", epochs=3), r"unknown key in \[model\] 'epochs'"),
        (
            change("model", training={"learning_rate": "fast"}),
            r"learning_rate in training in \[model\] must be a number",
        ),
        (
            change("model", training={"epoch": 3}),
            r"unknown key in training in \[model\] 'epoch': did you mean 'epochs'",
        ),
        (change("model", training=3), r"training in \[model\] must be a table, got 3"),
        ({"clusters": {"size": 3}}, r"unknown key in \[clusters\] 'size'"),
        ({"clusters": {"method": "exat"}}, "unknown method in .clusters. 'exat': did you mean 'exact'"),
        ({"clusters": {"average_size": 0.5}}, "average_size in .clusters. must be at least 1"),
        ({"clusters": 3}, "clusters must be a table, got 3"),
        ({"strategies": None}, r"has no table \[\[strategies\]\]"),
        ({"strategies": []}, "needs at least one table"),
        ({"strategies": [{"name": "x"}]}, "needs a strategy: cluster-margin"),
        ({"strategies": [{"strategy": "margins"}]}, "unknown strategy 'margins': did you mean 'margin'"),
        ({"strategies": [{"strategy": "badge", "partition": 2}]}, "'partition': did you mean 'partitions'"),
        ({"strategies": [{"strategy": "badge", "nam": "b"}]}, "'nam': did you mean 'name'"),
        (
            {"strategies": [{"strategy": "margin", "name": "x" * 201}]},
            r"the name 'x{40}\.\.\.' of a strategy is too long: .* at most 200 characters, and this one has 201",
        ),
        ({"strategies": [{"strategy": "margin"}] * 2}, "two strategies are called 'margin'"),
        (
            {"strategies": [{"strategy": "margin", "name": "é"}, {"strategy": "random", "name": "ü"}]},
            "the strategies 'é' and 'ü' would have the same folder",
        ),
        (
            {"strategies": [{"strategy": "cluster-margin", "clusters": 10}]},
            "the clusters of 'cluster-margin' must be a table such as { average_size = 10 }, got 10",
        ),
        ({"strategies": [{"strategy": "margin", "clusters": {"method": "exact"}}]}, "does not use clusters"),
        ({"strategies": [{"strategy": "cluster-margin", "margin_factor": 0.5}]}, "margin_factor"),
        ({"reported_savings": {"margins": {"margin": 71}}}, "strategy in reported_savings 'margins': did you mean"),
        ({"reported_savings": {"margin": {"badge": 71}}}, "unknown strategy in reported_savings 'badge'"),
        ({"reported_savings": {"margin": 71}}, "margin in reported_savings in the recipe must be a table, got 71"),
        (
            {"reported_savings": {"margin": {"cluster-margin": "few"}}},
            "cluster-margin in margin in reported_savings in the recipe must be a number",
        ),
        (
            {"model": {"kind": "program", "command": ["x"]}},
            "the strategy 'cluster-margin' needs clusters, but the model has no embeddings",
        ),
        ({"model": {"kind": "program", "command": ["x"], "embeddings": 1}}, "must be true or false, got 1"),
    ],
)
def test_a_mistake_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_recipe(make_tables(**changes))


def test_a_folder_of_the_same_name_is_no_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cifar10").mkdir()
    monkeypatch.chdir(tmp_path)
    assert load_recipe("cifar10").name == "cifar10"


def test_a_recipe_that_is_not_there_or_not_toml(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="unknown recipe 'cifar11': did you mean 'cifar1"):
        load_recipe("cifar11")
    with pytest.raises(InputError, match="does not exist: use a TOML file, or one of"):
        load_recipe(tmp_path / "none.toml")
    broken = tmp_path / "broken.toml"
    broken.write_text("name = \n")
    with pytest.raises(InputError, match="is not TOML"):
        load_recipe(broken)


def test_the_recipe_of_the_page_is_one(tmp_path: Path) -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "experiments.md"
    (tmp_path / "page.toml").write_text(page.read_text().split("```toml\n")[1].split("```")[0])
    assert load_recipe(tmp_path / "page.toml").batch_size == (500, 5_000)


def test_sizes_are_held_to_the_pool() -> None:
    recipe = Recipe("x", (Arm("random", Random()),), seed_size=10, batch_size=(5, 50), rounds=2, trials=1)
    recipe.check(110)
    with pytest.raises(InputError, match="need 110 labels, but the pool has 109 rows"):
        recipe.check(109)


@pytest.mark.parametrize("name", sorted(WORDS | MULTILABEL))
def test_multi_label_recipes_pick_pairs_by_all_strategies(name: str) -> None:
    recipe = load_recipe(name)
    assert recipe.unit == "pair"
    assert recipe.metric == "average_precision"
    chosen = {arm.name: arm.strategy for arm in recipe.strategies}
    assert {"cluster-margin", "margin", "badge", "coreset", "random", "stochastic-margin"} <= chosen.keys()
    assert isinstance(chosen["cluster-margin-pairs"], ClusterMarginPairs)
    assert chosen["cluster-margin-pairs"].power is None
    assert chosen["cluster-margin-pairs, power 1"].power == 1
    # No answer is trained on more often because it came early; or a fixed number of steps, as the paper fine-tunes.
    assert recipe.model.start == "first" or recipe.model.training.steps


def test_a_row_margin_is_read_for_pairs_and_refused_for_rows() -> None:
    for how in ("lowest", "mean", "top2", "top2-all"):
        arm = read_arm({"strategy": "cluster-margin-informed", "row_margin": how}, Clustering(), PAIR_STRATEGIES)
        assert arm.strategy.row_margin == how
    with pytest.raises(InputError, match=r"\[\[strategies\]\] cluster-margin: row_margin='mean' is for pairs"):
        read_arm({"strategy": "cluster-margin", "row_margin": "mean"}, Clustering())


def test_the_papers_large_setting() -> None:
    hundred, million = load_recipe("wordlangs"), load_recipe("wordlangs-million")
    assert (hundred.seed_size, hundred.batch_size, hundred.rounds, hundred.trials) == (300_000, (100_000,), 10, 3)
    assert (million.seed_size, million.batch_size, million.rounds) == (300_000, (1_000_000,), 10)
    for recipe, partitions in ((hundred, (20, 10)), (million, (200, 50))):
        chosen = {arm.name: arm for arm in recipe.strategies}
        assert chosen["cluster-margin"].strategy == ClusterMargin(margin_factor=10.0, row_margin="top2-all")
        assert chosen["cluster-margin"].clusters.average_size == 10
        assert (chosen["badge"].strategy.partitions, chosen["coreset"].strategy.partitions) == partitions
        assert chosen["coreset"].strategy.split_labeled
        assert recipe.dataset.limit is None
    table_2 = {"badge": 66, "coreset": 53, "margin": 71, "random": 52}
    assert hundred.reported_savings == {"cluster-margin": table_2}
    assert {arm.clusters.method for arm in hundred.strategies if "clusters" in arm.needs} == {"certified", "assign"}


def test_assignment_with_batches_of_a_million() -> None:
    million, assigned = load_recipe("wordlangs-million"), load_recipe("ablation-assign")
    assert assigned.describe() | {key: million.describe()[key] for key in ("name", "baseline", "strategies")} == (
        million.describe()
    )
    assert {arm.strategy for arm in assigned.strategies} == {million.strategies[0].strategy}
    assert [(arm.clusters.method, arm.clusters.join_by) for arm in assigned.strategies] == [
        ("certified", None),
        ("assign", "centroid"),
        ("assign", None),
    ]


def test_how_rows_are_assigned_to_clusters() -> None:
    base = Clustering(5.0, "assign", "cosine", "centroid")
    arm = {"strategy": "cluster-margin"}
    assert read_arm(arm, base).clusters == base
    assert read_arm(arm | {"clusters": {"average_size": 3}}, base).clusters == replace(base, average_size=3.0)
    assert read_arm(arm | {"clusters": {"method": "assign"}}, base).clusters == base
    assert read_arm(arm | {"clusters": {"method": "exact"}}, base).clusters == Clustering(5.0, "exact")
    assert "join_by" not in read_arm(arm, Clustering()).describe()["clusters"]  # as in runs before there was one
    assert read_arm(arm, base).describe()["clusters"]["join_by"] == "centroid"
    with pytest.raises(InputError, match=r"the clusters of 'cluster-margin': join_by goes with method='assign'"):
        read_arm(arm | {"clusters": {"join_by": "centroid"}}, Clustering())
    with pytest.raises(InputError, match=r"the clusters of 'cluster-margin': unknown join_by 'center'"):
        read_arm(arm | {"clusters": {"method": "assign", "join_by": "center"}}, Clustering())


def test_the_pool_without_copies_differs_in_nothing_else() -> None:
    typos, distinct = (load_recipe(f"wordlangs-{name}") for name in ("typos", "distinct"))
    sizes = [(one.limit - one.held_out - one.first) * (one.typos + 1) for one in (typos.dataset, distinct.dataset)]
    assert sizes == [800_000, 800_000]
    descriptions = [one.describe() | {"name": "", "dataset": {}} for one in (typos, distinct)]
    descriptions[0]["strategies"] = [
        arm for arm in descriptions[0]["strategies"] if arm["name"] not in ("badge", "coreset")
    ]
    assert descriptions[0] == descriptions[1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"metric": "accuracy"}, "unknown metric 'accuracy'"),
        ({"strategies": [{"strategy": "entropy"}]}, "unknown strategy 'entropy'"),
        ({"model": {"kind": "convnet"}}, "labels of pairs, .* use one of perceptron, ngrams"),
        ({"dataset": {"name": "redundant-digits"}, "model": {"kind": "ngrams"}}, "labels of rows"),
        ({"dataset": {"name": "words", "negative": 3}}, "did you mean 'negatives'"),
    ],
)
def test_pairs_need_their_own_models_metrics_and_strategies(changes: dict[str, Any], message: str) -> None:
    tables = make_tables(
        metric="average_precision",
        dataset={"name": "words"},
        model={"kind": "ngrams"},
        strategies=[{"strategy": "margin"}, {"strategy": "cluster-margin-pairs", "power": 1}],
    )
    assert parse_recipe(tables).unit == "pair"
    with pytest.raises(InputError, match=message):
        parse_recipe(tables | changes)


def test_a_recipe_may_be_like_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('like = "regimes-digits-1"\nname = "mine"\nbatch_size = 30\n[changes]\nnoise = 0.1\n')
    base, mine = load_recipe("regimes-digits-1"), load_recipe(path)
    assert (mine.name, mine.batch_size, mine.seed_size) == ("mine", (30,), base.seed_size)
    assert mine.strategies == base.strategies
    assert mine.describe()["dataset"] == {
        "source": {"name": "digits", "test_rows": 597},
        "changes": {"rows": None, "tail": 1.0, "copies": 0.0, "jitter": 0.05, "noise": 0.1, "seed": 0},
    }
    path.write_text('like = "regimes-copies-10"\nname = "mine"\n')
    with pytest.raises(InputError, match="is itself like another: name that one, 'regimes-digits-1'"):
        load_recipe(path)
    path.write_text('like = "regimes-digits"\nname = "mine"\n')
    with pytest.raises(InputError, match="did you mean"):
        load_recipe(path)


def test_the_cells_of_regimes_have_the_same_strategies() -> None:
    cells = [load_recipe(name) for name in list_recipes() if name.startswith("regimes-")]
    assert len(cells) >= 10
    for unit in ("row", "pair"):
        assert len({repr(cell.strategies) for cell in cells if cell.unit == unit}) == 1
    for cell in cells:
        again = next(arm for arm in cell.strategies if arm.stream)
        assert again.strategy == Hedge()
        shuffled = {name for arm in cell.strategies for name in arm.control_of}
        assert shuffled == {arm.name for arm in cell.strategies if "clusters" in arm.needs and not arm.control_of} - {
            again.name
        }
