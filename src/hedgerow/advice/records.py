"""What `advise` measures, as plain records: they hold numbers and text only, so that they can be stored as JSON.

A measurement that the inputs do not allow is None. Rules (`rules.py`) read measurements by name, with `find`.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

FACTORS = (1.25, 3.0, 10.0)  # of the batches that are simulated: those of the recipes
DERIVED = ("excess_sharing", "tightness")  # that rules read, and that JSON has for readers


@dataclass(frozen=True)
class SimulatedBatch:
    """A batch that was selected from the pool to look at it, not to buy it.

    margin_factor and candidates: of strategies with k_m = margin_factor * k candidates; candidates are at most what is
    unlabeled. sharing: the share of the picks that are in one cluster with another pick; for pairs, with another pick
    of the same class. clusters_per_100: distinct clusters per 100 picks; for pairs, clusters and classes together.
    alone: the share of the picks whose cluster has no other row in the pool. close: the share of the picks that are
    within `Measurements.close_distance` of another pick; for pairs, of one of the same class.
    """

    strategy: str
    margin_factor: float | None = None
    candidates: int | None = None
    sharing: float | None = None
    clusters_per_100: float | None = None
    alone: float | None = None
    close: float | None = None


@dataclass(frozen=True)
class Calibration:
    """How far confidence and accuracy are apart (`error`, 15 bins), on rows or pairs with known labels.

    source: "holdout", or "labeled" for the labeled part of the pool. A model is usually trained on the latter, and then
    looks better there than it is.
    """

    error: float
    accuracy: float
    count: int
    source: str


@dataclass(frozen=True)
class Measurements:
    """Everything that `advise` measured; None where the inputs do not tell.

    unit: "row" or "pair"; n, unlabeled, labeled and without_predictions count these. labeled_given: whether it was said
    what is labeled so far, be it nothing. classes: how many there are. labels_per_class: labeled / classes.
    fewest_labels, classes_without_labels: counted from the labels; for pairs, from the answers yes. batch_to_labels:
    k / labeled. batch_to_pool: k / unlabeled.

    n_clusters, average_size: of the clusters. chance_sharing, chance_clusters_per_100: what `sharing` and
    `clusters_per_100` of a margin batch would be on average if the clusters were shuffled over the rows of the pool,
    that is, if they meant nothing. agreement: how alike the margins within one cluster are, from about 0 (as with
    shuffled clusters) to 1 (equal); for pairs, within one cluster and class.

    close_distance: the median distance of two rows of one cluster; usual_distance: of two rows of the pool. metric:
    that of both; metric_assumed: whether neither the caller nor the clusters said which. close_count: how many picks of
    each batch were compared with all of it.

    unasked_classes: classes that are not one of the two most likely ones for any row of the margin batch; for pairs,
    those without a pair in it. largest_class: the share of the margin batch whose most likely class is the most
    frequent one; for pairs, the share of the most frequent class. tied: the share of the margin batch with the highest
    margin in it, if more has that margin than was picked, else 0. exclusive: for pairs, the share of the rows in the
    margin batch whose probabilities sum to 1, as those of a softmax do; 0 if they are not given by class. batches: the
    simulated batches.
    """

    unit: str
    k: int
    n: int
    unlabeled: int
    labeled: int
    without_predictions: int = 0
    classes: int | None = None
    labels_per_class: float | None = None
    fewest_labels: int | None = None
    classes_without_labels: int | None = None
    batch_to_labels: float | None = None
    batch_to_pool: float = 0.0
    n_clusters: int | None = None
    average_size: float | None = None
    chance_sharing: float | None = None
    chance_clusters_per_100: float | None = None
    agreement: float | None = None
    close_distance: float | None = None
    usual_distance: float | None = None
    close_count: int | None = None
    unasked_classes: int | None = None
    largest_class: float | None = None
    calibration: Calibration | None = None
    labeled_given: bool = False
    metric: str | None = None
    metric_assumed: bool = False
    tied: float | None = None
    exclusive: float = 0.0
    batches: tuple[SimulatedBatch, ...] = ()

    def find_batch(self, strategy: str, margin_factor: float | None = None) -> SimulatedBatch | None:
        """The simulated batch of a strategy, if there is one."""
        wanted = (strategy, margin_factor)
        return next((one for one in self.batches if (one.strategy, one.margin_factor) == wanted), None)

    @property
    def excess_sharing(self) -> float | None:
        """`sharing` of the margin batch minus what shuffled clusters would give: what the clusters know about it."""
        margin = self.find_batch("margin")
        return None if margin is None else _subtract(margin.sharing, self.chance_sharing)

    @property
    def margin_sharing(self) -> float | None:
        """`sharing` of the margin batch."""
        margin = self.find_batch("margin")
        return None if margin is None else margin.sharing

    @property
    def margin_clusters(self) -> float | None:
        """`clusters_per_100` of the margin batch."""
        margin = self.find_batch("margin")
        return None if margin is None else margin.clusters_per_100

    @property
    def tightness(self) -> float | None:
        """`close_distance` over `usual_distance`: small where rows of one cluster are near-copies."""
        if self.close_distance is None or not self.usual_distance:
            return None
        return self.close_distance / self.usual_distance

    @property
    def has_only_margins(self) -> bool:
        """Whether the predictions of rows are margins, which tell nothing about classes."""
        return self.unit == "row" and self.unasked_classes is None

    @property
    def can_draw(self) -> bool:
        """Whether margins are 0 to 1, as strategies that draw by them need; if not, none of these is simulated."""
        return not self.batches or self.find_batch("stochastic-margin") is not None

    @property
    def calibration_error(self) -> float | None:
        """The expected calibration error."""
        return None if self.calibration is None else self.calibration.error

    def find(self, name: str) -> float | None:
        """A measurement by its name."""
        value = getattr(self, name)
        return None if value is None else float(value)

    def find_most(self, name: str) -> float:
        """The most that a measurement can be: beyond what is shared by chance there is only the rest of the batch."""
        if name == "excess_sharing" and self.chance_sharing is not None:
            return 1 - self.chance_sharing
        return math.inf

    def to_json(self) -> dict[str, Any]:
        """In the types of JSON; `read_measurements` reads it."""
        derived = {name: self.find(name) for name in DERIVED}
        return asdict(self) | derived | {"batches": [asdict(one) for one in self.batches]}


def read_measurements(stored: Mapping[str, Any]) -> Measurements:
    """What `Measurements.to_json` gave."""
    found = {name: value for name, value in stored.items() if name not in DERIVED}
    batches = tuple(SimulatedBatch(**one) for one in found.pop("batches"))
    calibration = found.pop("calibration")
    return Measurements(
        **found, batches=batches, calibration=None if calibration is None else Calibration(**calibration)
    )


def _subtract(first: float | None, second: float | None) -> float | None:
    return None if first is None or second is None else first - second
