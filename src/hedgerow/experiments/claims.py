"""What the paper claims about strategies, by recipe, and the questions of ours that reports answer along with them.

A claim says that one strategy is above another, level with it, or not above it, for the area under the learning curve.
The lists are complete for the text of sections 3.2, 3.3 and the appendix, whichever way a claim points:

- 3.2 (Open Images): Cluster-Margin outperforms all methods; margin outperforms BADGE and CoreSet, apart from the final
  rounds with batches of a million, which is no claim about the whole curve; all methods improve on random.
- 3.3: Cluster-Margin outperforms all methods on CIFAR-10 and CIFAR-100, and is similar to margin and above the others
  on SVHN; BADGE is close to margin, except on SVHN, where margin is above; CoreSet does not go beyond random.
- Appendix: BADGE with one and with ten partitions is comparable on CIFAR-10 and SVHN; clusters assigned from the seed
  set are at least as good as clusters of the whole pool.

What it does not do: measure anything (`findings.py`).
"""

from collections.abc import Collection
from dataclasses import dataclass

CONFIRMED_BY = {"above": ("better",), "level": ("equal",), "not above": ("worse", "equal")}


@dataclass(frozen=True)
class Claim:
    """A strategy is "above", "level" with or "not above" another."""

    strategy: str
    relation: str
    other: str

    def __str__(self) -> str:
        return f"{self.strategy} is {self.relation}{' with' if self.relation == 'level' else ''} {self.other}"

    def judge(self, verdict: str) -> str:
        """What the verdict of the comparison (strategy minus other) says about the claim."""
        if verdict not in ("better", "worse") and not verdict.startswith("equal"):
            return verdict  # undecided, or one trial: neither confirms nor refutes anything
        if verdict.startswith(CONFIRMED_BY[self.relation]):
            return "yes"
        return {"better": "no: above", "worse": "no: below"}.get(verdict, f"no: {verdict}")


def _above(strategy: str, *others: str) -> tuple[Claim, ...]:
    return tuple(Claim(strategy, "above", other) for other in others)


CIFAR = (
    *_above("cluster-margin", "margin", "badge", "coreset", "random"),
    Claim("badge", "level", "margin"),
    Claim("coreset", "not above", "random"),
)
SVHN = (
    Claim("cluster-margin", "level", "margin"),
    *_above("cluster-margin", "badge", "coreset", "random"),
    *_above("margin", "badge", "coreset", "random"),
    Claim("coreset", "not above", "random"),
    Claim("badge, 10 partitions", "level", "badge"),
)
OPEN_IMAGES = (
    *_above("cluster-margin", "margin", "badge", "coreset", "random"),
    *_above("margin", "badge", "coreset", "random"),
    *_above("badge", "random"),
    *_above("coreset", "random"),
    Claim("cluster-margin", "not above", "cluster-margin, assign"),
)
CLAIMS: dict[str, tuple[Claim, ...]] = {
    **dict.fromkeys(("cifar10", "cifar10-vgg16", "cifar100", "cifar100-vgg16"), CIFAR),
    **dict.fromkeys(("svhn", "svhn-vgg16"), SVHN),
    **dict.fromkeys(("wordlangs", "wordlangs-million", "wordlangs-typos", "wordlangs-distinct"), OPEN_IMAGES),
    **dict.fromkeys(("wordlangs-small", "delicious", "bibtex", "tmc2007", "corel5k", "enron"), OPEN_IMAGES),
    **dict.fromkeys(("goemotions", "covtype"), OPEN_IMAGES),
    "sweep-digits": (*_above("cluster-margin, factor 10", "margin", "random"), *_above("margin", "random")),
    "ablation-badge": (Claim("badge, 10 partitions", "level", "badge, 1 partition"),),
    "ablation-assign": (Claim("cluster-margin", "not above", "cluster-margin, assign by centroid"),),
    "ablation-clusters": (Claim("cluster-margin, certified", "not above", "cluster-margin, assign"),),
}
# Questions of ours: a strategy that visits clusters in turn, and the one that ranks or draws by the same margins.
BY_CLUSTERS = (("cluster-margin-pairs", "margin"), ("cluster-margin-pairs, power 1", "stochastic-margin"))


def list_claims(recipe: str, strategies: Collection[str]) -> tuple[Claim, ...]:
    """The claims that a recipe can test: those about two of its strategies."""
    return tuple(one for one in CLAIMS.get(recipe, ()) if {one.strategy, one.other} <= set(strategies))
