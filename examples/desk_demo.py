"""The first minutes of a campaign, with an annotator who knows everything: real images, three strategies, one page.

    python examples/desk_demo.py [FOLDER]      (needs the extras `sklearn` and `start`; `make desk-demo` installs them)

Writes scikit-learn's 1,797 scanned digits as image files, starts a campaign on them as `hedgerow start` does, and lets
a simulated annotator label the holdout and the rounds of three strategies, Cluster-Margin, Hedge and Random, which have
the same holdout and the same first batch. A linear head on the embeddings is trained after each round. Everything is
measured on the holdout and printed as it is, whichever strategy is better; one trial proves little. The curves
of all strategies and the report of the first are the pages to open; on the desk a person can go on.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_digits

import hedgerow as hr
from hedgerow.campaign.curves import Measured
from hedgerow.report import Section, compose_page, draw_curves, write_page

BATCH, ROUNDS, HOLDOUT = 100, 5, 400
STRATEGIES = ("cluster-margin", "hedge", "random")
CLASSES = [str(digit) for digit in range(10)]


def write_images(folder: Path) -> dict[str, str]:
    """The digits as PNG files; what annotators would see in each."""
    digits = load_digits()
    folder.mkdir(parents=True)
    known = {}
    for number, (pixels, digit) in enumerate(zip(digits.images, digits.target, strict=True)):
        name = f"{number:04}.png"
        Image.fromarray(255 - np.uint8(pixels * 15.9)).resize((64, 64), Image.Resampling.BICUBIC).save(folder / name)
        known[name] = str(digit)
    return known


def answer_all(campaign: hr.Campaign, known: dict[str, str]) -> None:
    """Answer every open task as it is handed out."""
    while tasks := campaign.claim("simulated", 100):
        for task in tasks:
            campaign.answer("simulated", task.task, known[str(task.id)], key=f"demo-{task.task}")


def play(folder: Path, strategy: str, known: dict[str, str]) -> list[Measured]:
    """The rounds of one strategy; its models on the holdout, one after each."""
    with hr.Campaign.open(folder) as campaign:
        answer_all(campaign, known)  # the holdout and the first batch
        campaign.learn()
        for _ in range(ROUNDS - 1):
            campaign.next(BATCH, strategy=strategy)
            answer_all(campaign, known)
            campaign.learn()
        campaign.report(folder.with_suffix(".html"))
        campaign.next(BATCH, strategy=strategy)  # for whoever opens the desk
        return campaign.curve()


def draw_page(path: Path, curves: dict[str, list[Measured]]) -> None:
    """The curves of all strategies on one page."""
    points = [(name, one.labels, one.value, (one.low, one.high)) for name, curve in curves.items() for one in curve]
    lead = f"Accuracy on the same {HOLDOUT:,} random images after each round of {BATCH:,} labels; one trial."
    note = "<p>Bands are 95 % intervals of each accuracy. The first batch is the same for all.</p>"
    sections = [Section("Accuracy by labels", draw_curves(points, percent=True) + note)]
    write_page(path, compose_page("Digits labeled by a simulated annotator", lead, sections))


def main() -> None:
    """Make the images, play all strategies, and say what to open."""
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "desk-demo")
    if folder.exists():
        shutil.rmtree(folder)
    known = write_images(folder / "digits")
    first = folder / f"{STRATEGIES[0]}.hedgerow"
    hr.start(
        folder / "digits",
        first,
        classes=CLASSES,
        holdout=HOLDOUT,
        batch=BATCH,
        engine="auto",
        progress=True,
        tell=print,
    )
    for strategy in STRATEGIES[1:]:
        shutil.copytree(first, folder / f"{strategy}.hedgerow")
    curves = {}
    for strategy in STRATEGIES:
        print(f"\n{strategy}:")
        curves[strategy] = play(folder / f"{strategy}.hedgerow", strategy, known)
        for measured in curves[strategy]:
            print(f"  {measured}")
    draw_page(folder / "curves.html", curves)
    print(f"\npages to open: {folder / 'curves.html'}, {first.with_suffix('.html')}")
    print(f"go on by hand: hedgerow desk {first} --root {folder / 'digits'}")


if __name__ == "__main__":
    main()
