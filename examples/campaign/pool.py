"""A real pool for the walk through a campaign: words of five languages, with embeddings of their letters.

    python pool.py FOLDER      (needs the extras `words` and `sklearn`)

Writes words.csv (id, text), embeddings.npy, and truth.csv (id, label), which stands for what annotators know. Words
that occur in more than one of the lists are left out.
"""

import csv
import sys
from collections import Counter
from pathlib import Path

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from wordfreq import top_n_list

LANGUAGES = {"en": "english", "de": "german", "fr": "french", "es": "spanish", "it": "italian"}
MOST, SHORTEST, WIDTH = 3000, 3, 64

if len(sys.argv) != 2:
    sys.exit("usage: python pool.py FOLDER")
folder = Path(sys.argv[1])
folder.mkdir(parents=True, exist_ok=True)
lists = {name: [word for word in top_n_list(code, MOST) if word.isalpha()] for code, name in LANGUAGES.items()}
seen = Counter(word for words in lists.values() for word in set(words))
pool = [(word, name) for name, words in lists.items() for word in words if seen[word] == 1 and len(word) >= SHORTEST]
pool = [pool[at] for at in np.random.default_rng(0).permutation(len(pool))]
with (folder / "words.csv").open("w", newline="", encoding="utf-8") as file:
    csv.writer(file).writerows([("id", "text"), *((f"w{at}", word) for at, (word, _) in enumerate(pool))])
with (folder / "truth.csv").open("w", newline="", encoding="utf-8") as file:
    csv.writer(file).writerows([("id", "label"), *((f"w{at}", name) for at, (_, name) in enumerate(pool))])
grams = TfidfVectorizer(analyzer="char_wb", ngram_range=(1, 3), sublinear_tf=True, min_df=2)
letters = TruncatedSVD(WIDTH, random_state=0).fit_transform(grams.fit_transform([word for word, _ in pool]))
np.save(folder / "embeddings.npy", letters.astype(np.float32))
print(f"{len(pool):,} words")
