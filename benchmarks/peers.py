"""Claim: BADGE is 500 times and CoreSet 50 times as fast as in scikit-activeml, in the same run.

50,000 rows of 128 numbers, 10 classes, a batch of 1,000. scikit-activeml's `Badge` receives the same probabilities
from a classifier that only returns them; its `CoreSet` starts from the same labeled row. Its libraries are limited
to one thread, as ours are: more threads compete for small products and only slow it down. CPU seconds. With 100
classes its `Badge` needs 10 GiB and is left out.
"""

import numpy as np
from threadpoolctl import threadpool_limits

import hedgerow as hr
from pools import make_pool
from runner import arguments, installed_version, measure, save

SEED = 0


def run_badge(probabilities, embeddings, k):
    """scikit-activeml's own loop."""
    from skactiveml.base import SkactivemlClassifier
    from skactiveml.pool import Badge
    from skactiveml.utils import MISSING_LABEL

    class Given(SkactivemlClassifier):
        def fit(self, X, y, sample_weight=None):
            return self

        def predict_proba(self, X):
            return probabilities[: len(X)]

    n, classes = probabilities.shape
    model = Given(classes=list(range(classes)))
    model.classes_ = np.arange(classes)
    query = Badge(missing_label=MISSING_LABEL, random_state=SEED)
    return query.query(embeddings, np.full(n, MISSING_LABEL), model, fit_clf=False, batch_size=k)


def run_coreset(embeddings, k):
    from skactiveml.pool import CoreSet

    labels = np.full(len(embeddings), np.nan)
    labels[0] = 0  # it needs a label; ours gets the same one
    return CoreSet(random_state=SEED).query(embeddings, labels, batch_size=k)


def compare(ours, theirs, repeats):
    """Both timed after a first small call (`small=True`), which imports and compiles."""
    ours(small=True)
    theirs(small=True)
    found = {"hedgerow": measure(ours, repeats)}
    with threadpool_limits(1):
        found["scikit-activeml"] = measure(theirs, 1)
    times = found["scikit-activeml"]["cpu_seconds"] / found["hedgerow"]["cpu_seconds"]
    return {**found, "times_scikit_activeml": times}


def main():
    options = arguments(__doc__)
    n, k, repeats = (2000, 50, 1) if options.quick else (50_000, 1000, 3)
    probabilities, embeddings = make_pool(n, "clustered")

    def cut(small):
        return (500, 10) if small else (n, k)

    def badge(small=False):
        rows, count = cut(small)
        return hr.select("badge", count, probabilities=probabilities[:rows], embeddings=embeddings[:rows]).rows

    def their_badge(small=False):
        rows, count = cut(small)
        return run_badge(probabilities[:rows], embeddings[:rows], count)

    def coreset(small=False):
        rows, count = cut(small)
        return hr.select("coreset", count, embeddings=embeddings[:rows], labeled=[0]).rows

    def their_coreset(small=False):
        rows, count = cut(small)
        return run_coreset(embeddings[:rows], count)

    assert len(np.unique(their_badge(small=True))) == 10
    assert np.array_equal(their_coreset(small=True), coreset(small=True))
    results = {
        "badge": compare(badge, their_badge, repeats),
        "coreset": compare(coreset, their_coreset, repeats),
    }
    version = installed_version("scikit-activeml")
    save("peers", SEED, {"n": n, "k": k, "scikit-activeml": version, "quick": options.quick}, results, options)


if __name__ == "__main__":
    main()
