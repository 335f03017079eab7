"""Claim: a campaign of ten million rows opens in two seconds and 500 MB and reserves a million of them in ten seconds;
a million labels are ingested in 15 CPU seconds on SQLite; 30 tasks of a batch of 100,000 are claimed in 30 ms (p99)
while eight people claim and answer, on SQLite and on PostgreSQL; the agreement of a million rows with two answers each
takes seconds.

The parts can be run one by one: `--part ingest`, `next`, `open`, `claim`, `agreement`. Each has a result of its own.
`ingest` measures reading the file and applying it, for a million answers in random order to a batch of a million rows
out of two; `next` and `open` are about margins that are registered and clusters that are given. A claim includes the
ids and texts of its tasks. Times of claims are those of the clock, so that the machine must be idle.
"""

import json
import multiprocessing
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet as pq

from hedgerow import Campaign
from hedgerow.campaign import formats, quality
from runner import HERE, in_fresh_process, measure, parser, peak_memory, save

SEED, CLASSES, PEOPLE, CLAIMED = 0, [f"class {number}" for number in range(10)], 8, 30
# Seconds before each answer, on average. People take longer; without pauses eight processes compete for the cores.
PAUSES = {"people at work": 0.3, "without pauses": 0.0}
PARTS = ("ingest", "next", "open", "claim", "agreement")


def write_pool(path, n, texts=False):
    numbers = pa.array(np.arange(n)).cast(pa.string())
    columns = {"id": pa.compute.binary_join_element_wise("example", numbers, "-")}
    if texts:
        columns["text"] = pa.compute.binary_join_element_wise("somebody wrote a sentence about", numbers, " ")
    pq.write_table(pa.table(columns), path)


def make_campaign(folder, n, *, clusters=True, texts=False, url=None):
    """A campaign of n rows; clusters of ten rows each are given."""
    write_pool(folder / "pool.parquet", n, texts)
    labels = np.random.default_rng(SEED).integers(0, n // 10, n).astype(np.int32) if clusters else None
    given = {"classes": CLASSES, "clusters": labels, "holdout": 1000, "database": url}
    return Campaign.init(folder / "campaign", folder / "pool.parquet", **given)


# Labels.


def write_labels(folder, rows):
    """Label files in three forms, in random order."""
    rng = np.random.default_rng(SEED)
    n = len(rows)
    order = rng.permutation(rows)
    times = pa.array((1_700_000_000 + np.arange(n)) * 1_000_000).cast(pa.timestamp("us"))
    table = pa.table(
        {
            "id": [f"example-{row}" for row in order.tolist()],
            "label": [CLASSES[code] for code in rng.integers(0, len(CLASSES), n).tolist()],
            "annotator": [f"person {code}" for code in rng.integers(0, 40, n).tolist()],
            "said_at": pa.compute.binary_join_element_wise(
                pa.compute.strftime(times, format="%Y-%m-%dT%H:%M:%S"), "+00:00", ""
            ),
        }
    )
    pq.write_table(table, folder / "labels.parquet")
    pyarrow.csv.write_csv(table, folder / "labels.csv")
    with (folder / "labels.jsonl").open("w") as file:
        file.writelines(json.dumps(record) + "\n" for record in table.to_pylist())


def ingest_labels(folder, form):
    """Seconds of one ingest, in a copy of the campaign."""
    copy = folder / form
    shutil.copytree(folder / "campaign", copy)
    with Campaign.open(copy) as campaign:
        found = {}
        parsed = measure(lambda: found.update(file=formats.read_answers(folder / f"labels.{form}")), repeats=1)
        applied = measure(lambda: found.update(done=campaign.ingest(found["file"])), repeats=1)
    assert found["done"].counts["new"] == found["done"].rows
    shutil.rmtree(copy)
    total = {key: parsed[key] + applied[key] for key in ("cpu_seconds", "wall_seconds")}
    return {"reading": shorten(parsed), "applying": shorten(applied), "total": total}


def run_ingest(options):
    n = 20_000 if options.quick else 1_000_000
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with make_campaign(folder, 2 * n, clusters=False) as campaign:
            batch = campaign.next(n, strategy="random", seed=SEED)
            write_labels(folder, campaign.batch(batch)["row"])
        results = {
            form: in_fresh_process(ingest_labels, folder, form)["result"] for form in ("parquet", "csv", "jsonl")
        }
    save("campaign_ingest", SEED, {"labels": n, "rows": 2 * n, "quick": options.quick}, results, options, "campaign")


# Ten million rows.


def build(folder, n):
    """A campaign with margins of all rows; seconds of init and predict."""
    found = {}
    made = measure(lambda: found.update(campaign=make_campaign(folder, n)), repeats=1)
    margins = np.random.default_rng(SEED).random(n, np.float32)
    with found["campaign"] as campaign:
        predicted = measure(lambda: campaign.predict(margins), repeats=1)
    return {"init": shorten(made), "predict": shorten(predicted)}


def shorten(measured):
    return {key: measured[key] for key in ("cpu_seconds", "wall_seconds")}


def reserve(folder, k):
    with Campaign.open(folder / "campaign") as campaign:
        return describe(peak_memory(lambda: campaign.next(k, seed=SEED)))


def look(folder, status):
    """Open a campaign, and ask for its status if that is wanted."""

    def work():
        with Campaign.open(folder / "campaign") as campaign:
            return campaign.status() if status else None

    return describe(peak_memory(work))


def describe(found):
    return {"cpu_seconds": found["cpu"], "wall_seconds": found["wall"], "peak_rss_bytes": found["peak_rss_bytes"]}


def run_large(options, parts):
    n, k = (100_000, 10_000) if options.quick else (10_000_000, 1_000_000)
    settings = {"rows": n, "batch": k, "quick": options.quick}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        results = in_fresh_process(build, folder, n)["result"]
        results["next"] = in_fresh_process(reserve, folder, k)["result"]
        if "next" in parts:
            save("campaign_next", SEED, settings, results, options, "campaign")
        if "open" in parts:
            results = {
                "open": in_fresh_process(look, folder, False)["result"],
                "open and status": in_fresh_process(look, folder, True)["result"],
            }
            save("campaign_open", SEED, settings, results, options, "campaign")


# Claims.


def work_at_desk(folder, url, name, rounds, pause, ready, sending):
    """Claim tasks and answer them, with pauses of about `pause` seconds; seconds of each claim and of each answer."""
    claims, answers = [], []
    rng = np.random.default_rng(list(name.encode()))
    with Campaign.open(folder / "campaign", database=url) as campaign:
        campaign.claim(name, 1)
        campaign.release(name)
        ready.wait()
        time.sleep(rng.uniform(0, CLAIMED * pause))  # people do not begin in the same millisecond
        for _ in range(rounds):
            begun = time.perf_counter()
            held = campaign.claim(name, CLAIMED)
            claims.append(time.perf_counter() - begun)
            assert 0 < len(held) <= CLAIMED  # fewer where others hold the next ones
            for one in held:
                time.sleep(rng.exponential(pause))
                begun = time.perf_counter()
                campaign.answer(name, one.task, CLASSES[one.row % 10])
                answers.append(time.perf_counter() - begun)
    sending.send((claims, answers, time.process_time()))


def measure_claims(folder, n, k, rounds, url):
    with make_campaign(folder, n, clusters=False, texts=True, url=url) as campaign:
        campaign.next(k, strategy="random", seed=SEED)
    found = {}
    for what, pause in PAUSES.items():
        timed = measure_people(folder, rounds, pause, url, what)
        found |= {f"{what}, {name}": value for name, value in timed.items()}
    return found


def measure_people(folder, rounds, pause, url, what):
    """Percentiles of claims and answers of all people, each in a process of its own."""
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(PEOPLE)
    pipes = [context.Pipe(duplex=False) for _ in range(PEOPLE)]
    running = [
        context.Process(target=work_at_desk, args=(folder, url, f"person {at}, {what}", rounds, pause, ready, sending))
        for at, (_, sending) in enumerate(pipes)
    ]
    for process, (_, sending) in zip(running, pipes, strict=True):
        process.start()
        sending.close()  # so that a process that fails ends the run
    found = [receiving.recv() for receiving, _ in pipes]
    for process in running:
        process.join()
    times = {what: [one for part in found for one in part[at]] for at, what in enumerate(("claim", "answer"))}
    return {
        what: {
            "count": len(values),
            **{f"p{share}_wall_seconds": float(np.percentile(values, share)) for share in (50, 95, 99)},
        }
        for what, values in times.items()
    }


def run_claim(options):
    n, k, rounds = (4000, 3000, 3) if options.quick else (1_000_000, 100_000, 6)
    results = {}
    for kind in ("SQLite", "PostgreSQL"):
        with tempfile.TemporaryDirectory() as made:
            found = (
                measure_on_server(Path(made), n, k, rounds)
                if kind == "PostgreSQL"
                else measure_claims(Path(made), n, k, rounds, None)
            )
        results |= {f"{kind}, {what}": value for what, value in found.items()}
    settings = {"rows": n, "batch": k, "people": PEOPLE, "claimed": CLAIMED, "pauses": PAUSES, "quick": options.quick}
    save("campaign_claim", SEED, settings, results, options, "campaign")


def measure_on_server(folder, n, k, rounds):
    sys.path.append(str(HERE.parent / "tests"))
    from postgres import Server, find_reason

    if find_reason():
        sys.stderr.write(f"{find_reason()}\n")
        return {}
    server = Server()
    try:
        return measure_claims(folder, n, k, rounds, server.create("claims"))
    finally:
        server.remove()


# Agreement.


def run_agreement(options):
    """The agreement of doubly labeled rows, from votes in memory: reading them from a campaign is not included."""
    n = 20_000 if options.quick else 1_000_000
    rng = np.random.default_rng(SEED)
    rows, truth = np.repeat(np.arange(n), 2), np.repeat(rng.integers(0, len(CLASSES), n), 2)
    people = np.stack([rng.integers(0, 20, n), rng.integers(20, 40, n)], axis=1).ravel()
    values = np.where(rng.random(2 * n) < 0.9, truth, rng.integers(0, len(CLASSES), 2 * n))
    results = {"from votes": measure(lambda: quality.agree(quality.make_votes(rows, -1, people, values)))}
    save("campaign_agreement", SEED, {"rows": n, "answers": 2, "quick": options.quick}, results, options, "campaign")


def main():
    made = parser(__doc__)
    made.add_argument("--part", action="append", choices=PARTS, help="measure this only; may be given several times")
    options = made.parse_args()
    parts = options.part or PARTS
    if "ingest" in parts:
        run_ingest(options)
    if {"next", "open"} & set(parts):
        run_large(options, parts)
    if "claim" in parts:
        run_claim(options)
    if "agreement" in parts:
        run_agreement(options)


if __name__ == "__main__":
    main()
