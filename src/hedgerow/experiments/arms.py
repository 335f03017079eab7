"""The arms of an experiment: strategies with their names in the results, and the clusters that they use."""

from dataclasses import dataclass
from typing import Any

from hedgerow.rounds import Clustering
from hedgerow.strategies import find_needs

DEFAULT_CLUSTERS = Clustering()


@dataclass(frozen=True)
class Arm:
    """One strategy of an experiment, and its name in the results.

    control_of: the names of the strategies that are compared with this one as their control; `lacks` is the idea that
    it lacks, to which the difference is credited. stream: its random numbers, others for the same strategy run twice.
    """

    name: str
    strategy: Any
    clusters: Clustering = DEFAULT_CLUSTERS
    control_of: tuple[str, ...] = ()
    lacks: str = ""
    stream: int = 0

    @property
    def needs(self) -> frozenset[str]:
        """The inputs that it needs; a plain callable that declares nothing gets all of them."""
        return find_needs(self.strategy)

    def describe(self) -> dict[str, Any]:
        """Its settings in the types of JSON; only what applies."""
        settings: dict[str, Any] = {"name": self.name, "strategy": repr(self.strategy)}
        if "clusters" in self.needs:
            settings["clusters"] = self.clusters.describe()
        if self.control_of:
            settings |= {"control_of": list(self.control_of), "lacks": self.lacks}
        return settings | ({"stream": self.stream} if self.stream else {})
