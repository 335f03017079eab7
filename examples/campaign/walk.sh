#!/bin/sh
# A campaign from the first label to the third model, as docs/campaign.md explains it. The annotators are simulated.
#
#     cp -r examples/campaign walk && cd walk && sh walk.sh        (needs the extras `words` and `sklearn`)
set -eu

python pool.py .
head -3 words.csv
hedgerow campaign init words words.csv --embeddings embeddings.npy --holdout 300 --holdout-answers 2 \
    --classes english,german,french,spanish,italian
hedgerow campaign export words 1 -o holdout.csv
head -2 holdout.csv
python annotators.py holdout.csv truth.csv holdout-labels.csv ana ben
hedgerow campaign ingest words holdout-labels.csv
hedgerow campaign budget words --labels 2000
hedgerow campaign next words -k 100
hedgerow campaign export words 2 -o round1.csv
python annotators.py round1.csv truth.csv labels1.csv ana
hedgerow campaign ingest words labels1.csv
hedgerow campaign learn words
hedgerow campaign next words -k 200 --answers 2
hedgerow campaign export words 3 -o round2.csv
python annotators.py round2.csv truth.csv labels2.csv ana ben=0.1
hedgerow campaign ingest words labels2.csv
hedgerow campaign learn words
hedgerow campaign next words -k 300
hedgerow campaign export words 4 -o round3.csv
python annotators.py round3.csv truth.csv labels3.csv ben=0.1
hedgerow campaign ingest words labels3.csv
hedgerow campaign learn words
hedgerow campaign status words
hedgerow campaign curve words
hedgerow campaign people words
hedgerow campaign stop words
hedgerow campaign ingest words labels3.csv 2>&1 || true
printf 'id,label,annotator\nw0,french,ana\nw1,klingon,ana\nw99999,german,ana\n' > mixed.csv
hedgerow campaign ingest words mixed.csv
cat mixed.csv.rejects.jsonl
hedgerow campaign retract words --source 4
hedgerow campaign ingest words labels3.csv
hedgerow campaign labels words -o labels.csv
head -3 labels.csv
hedgerow campaign next words -k 20
hedgerow campaign claim words ana -n 2
