"""hedgerow: batch active learning at scale. Public names, in walking order.

Everything is imported when it is first touched, so that `import hedgerow` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.advice import Advice, Calibration, Measurements, Reason, SimulatedBatch, advise
    from hedgerow.batches import Batch, PairBatch
    from hedgerow.campaign.campaign import Campaign
    from hedgerow.clustering.clusters import Clusters, cluster
    from hedgerow.clustering.dendrogram import Dendrogram
    from hedgerow.clustering.hac import linkage
    from hedgerow.clustering.methods import Assign, Certified, Exact, Multiround
    from hedgerow.encoders import Embedded, embed
    from hedgerow.errors import (
        CampaignError,
        EngineError,
        HedgerowError,
        HedgerowWarning,
        InputError,
        MissingExtraError,
        PoolExhaustedError,
        StoreError,
    )
    from hedgerow.metrics import average_precision, macro_average_precision
    from hedgerow.pairs import (
        PAIR_STRATEGIES,
        ClusterMarginPairs,
        InformedClusterMargin,
        InformedRandom,
        Pairs,
        PairView,
        ShuffledClusterMarginPairs,
        UniformCandidatePairs,
        select_pairs,
    )
    from hedgerow.scores import entropies, least_confidences, margins
    from hedgerow.starting import Started, start
    from hedgerow.strategies import (
        STRATEGIES,
        Badge,
        ClusterMargin,
        CoreSet,
        Drawn,
        Entropy,
        Hedge,
        LeastConfidence,
        Margin,
        MaxHerding,
        ProbCover,
        Random,
        ShuffledClusterMargin,
        ShuffledHedge,
        StochasticMargin,
        TypiClust,
        UHerding,
        UniformCandidates,
        View,
        select,
    )
    from hedgerow.warming import Warmed, warm

__version__ = "0.1.0"

_HOME = {
    "start": "starting",
    "Started": "starting",
    "embed": "encoders",
    "Embedded": "encoders",
    "linkage": "clustering.hac",
    "Dendrogram": "clustering.dendrogram",
    "cluster": "clustering.clusters",
    "Clusters": "clustering.clusters",
    "Exact": "clustering.methods",
    "Certified": "clustering.methods",
    "Multiround": "clustering.methods",
    "Assign": "clustering.methods",
    "margins": "scores",
    "entropies": "scores",
    "least_confidences": "scores",
    "select": "strategies",
    "Batch": "batches",
    "View": "strategies",
    "STRATEGIES": "strategies",
    "Drawn": "strategies",
    "ClusterMargin": "strategies",
    "Hedge": "strategies",
    "Margin": "strategies",
    "Badge": "strategies",
    "CoreSet": "strategies",
    "TypiClust": "strategies",
    "ProbCover": "strategies",
    "MaxHerding": "strategies",
    "UHerding": "strategies",
    "StochasticMargin": "strategies",
    "Random": "strategies",
    "Entropy": "strategies",
    "LeastConfidence": "strategies",
    "ShuffledClusterMargin": "strategies",
    "ShuffledHedge": "strategies",
    "UniformCandidates": "strategies",
    "select_pairs": "pairs",
    "Pairs": "pairs",
    "PairBatch": "batches",
    "PairView": "pairs",
    "PAIR_STRATEGIES": "pairs",
    "ClusterMarginPairs": "pairs",
    "ShuffledClusterMarginPairs": "pairs",
    "UniformCandidatePairs": "pairs",
    "InformedClusterMargin": "pairs",
    "InformedRandom": "pairs",
    "advise": "advice",
    "Advice": "advice",
    "Reason": "advice",
    "Measurements": "advice",
    "SimulatedBatch": "advice",
    "Calibration": "advice",
    "average_precision": "metrics",
    "macro_average_precision": "metrics",
    "Campaign": "campaign.campaign",
    "warm": "warming",
    "Warmed": "warming",
    "HedgerowError": "errors",
    "InputError": "errors",
    "PoolExhaustedError": "errors",
    "CampaignError": "errors",
    "StoreError": "errors",
    "EngineError": "errors",
    "MissingExtraError": "errors",
    "HedgerowWarning": "errors",
}

__all__ = [
    "PAIR_STRATEGIES",
    "STRATEGIES",
    "Advice",
    "Assign",
    "Badge",
    "Batch",
    "Calibration",
    "Campaign",
    "CampaignError",
    "Certified",
    "ClusterMargin",
    "ClusterMarginPairs",
    "Clusters",
    "CoreSet",
    "Dendrogram",
    "Drawn",
    "Embedded",
    "EngineError",
    "Entropy",
    "Exact",
    "Hedge",
    "HedgerowError",
    "HedgerowWarning",
    "InformedClusterMargin",
    "InformedRandom",
    "InputError",
    "LeastConfidence",
    "Margin",
    "MaxHerding",
    "Measurements",
    "MissingExtraError",
    "Multiround",
    "PairBatch",
    "PairView",
    "Pairs",
    "PoolExhaustedError",
    "ProbCover",
    "Random",
    "Reason",
    "ShuffledClusterMargin",
    "ShuffledClusterMarginPairs",
    "ShuffledHedge",
    "SimulatedBatch",
    "Started",
    "StochasticMargin",
    "StoreError",
    "TypiClust",
    "UHerding",
    "UniformCandidatePairs",
    "UniformCandidates",
    "View",
    "Warmed",
    "advise",
    "average_precision",
    "cluster",
    "embed",
    "entropies",
    "least_confidences",
    "linkage",
    "macro_average_precision",
    "margins",
    "select",
    "select_pairs",
    "start",
    "warm",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hedgerow' has no attribute {name!r}")
    return getattr(import_module(f"hedgerow.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
