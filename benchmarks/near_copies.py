"""Claim: in a pool with near-duplicates, a tenth to a quarter of a batch selected by margin repeats what it already
asks. Visiting the 80,000 clusters in turn halves that in a batch of 20,000 and hardly changes it in one of 100,000.
One seed, two batch sizes, no control with shuffled clusters.

The pool of the recipe `wordlangs-typos`: every word and four copies with a typing error each. After the seed set,
each strategy selects one batch with the same model and clusters. `distinct_pairs`: the share of the batch that
remains if pairs with the same class and copies of the same word are counted once; `distinct_words`: different words
per pair. Badge and coreset use partitions, as in the recipe.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from hedgerow.experiments import load_recipe
from hedgerow.rounds import Trial
from runner import arguments, save

SEED = 0  # the trial's number


def shrink(recipe):
    """The recipe on a few thousand words, for a trial run."""
    dataset = replace(recipe.dataset, limit=3_000, held_out=500, first=500)
    training = replace(recipe.model.training, steps=50)
    model = replace(recipe.model, training=training, first_training=training)
    return replace(recipe, dataset=dataset, model=model, seed_size=1_000, batch_size=(200, 1_000))


def count(index, pairs, words):
    """How much of a batch is left when copies of a word count as the word."""
    word, asked = pairs.rows[index] % words, pairs.classes[index]
    distinct = np.unique(word * pairs.class_count + asked)
    return {
        "distinct_pairs": len(distinct) / len(index),
        "distinct_words": len(np.unique(word)) / len(index),
    }


def main():
    options = arguments(__doc__)
    recipe = load_recipe("wordlangs-typos")
    recipe = shrink(recipe) if options.quick else recipe
    dataset = recipe.dataset.load(None, Path())
    task = dataset.task
    words = task.n // (recipe.dataset.typos + 1)  # copy i of word w is row i * words + w
    plan = recipe.plan(recipe.batch_size[0])
    trial = Trial(task, recipe.model.make_trainer(dataset, None), plan, SEED)
    state, (clusters, _) = trial.open_state(), trial.cluster(recipe.strategies[0].clusters)
    labeled = state.picked
    results = {f"batches of {k:,}": {} for k in recipe.batch_size}
    for arm in recipe.strategies:
        inputs = task.predict(state.model, clusters, arm.strategy)
        for k in recipe.batch_size:
            batch = task.select(arm.strategy, k, labeled=labeled, seed=SEED, **inputs)
            results[f"batches of {k:,}"][arm.name] = count(batch.index, task.pairs, words)
    settings = {"rows": task.n, "words": words, "pairs": task.size, "labeled": len(labeled), "quick": options.quick}
    settings |= {"clusters": clusters.n_clusters, "average_size": clusters.average_size}
    save("near_copies", SEED, settings, results, options)


if __name__ == "__main__":
    main()
