"""Report: from `pip install` of the built wheel in a fresh virtual environment to ten labels pressed in a browser, for
2,000 images and for 20,000 texts.

Nothing is compiled before, in neither of the two runs. The wheel is built first, which is not counted; packages come
from wherever pip gets them, so that the installation says more about the connection than about hedgerow. `start` is
the command from its beginning to the link; `ten labels` from opening the link in a browser that knows nothing of the
desk until the campaign has all ten, with keys as soon as there is something to see: people think longer. All times are
those of the clock; CPU seconds are those of the command. `--data` names the folder with `goemotions` and
`cifar-10-batches-py`; without it, or with `--quick`, made-up words and noise are labeled.

    python benchmarks/newcomer.py --data FOLDER
"""

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

from embed import read_images, read_texts, write_texts
from runner import HERE, parser, save

sys.path.append(str(HERE.parent / "tests"))
import rooms

SEED, CLASSES, LABELS = 0, "cat,dog,fox", 10
TEXTS, IMAGES, SIDE = 20_000, 2_000, 256
EXTRAS = "start,desk"


def run(*command):
    """Wall seconds of a command that must succeed."""
    began = time.perf_counter()
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def install(folder):
    """The `hedgerow` of a new environment, and what its installation took."""
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, HERE.parent)
    (wheel,) = folder.glob("hedgerow-*.whl")
    run(sys.executable, "-m", "venv", folder / "venv")
    pip = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet"]
    seconds = run(*pip, "-c", HERE.parent / "constraints.txt", f"{wheel}[{EXTRAS}]")
    size = sum(path.lstat().st_size for path in (folder / "venv").rglob("*") if path.is_file())
    return folder / "venv" / "bin" / "hedgerow", {"wall_seconds": seconds, "disk_bytes": size}


def write_images(folder, images):
    folder.mkdir()
    for number, image in enumerate(images):
        Image.fromarray(image).resize((SIDE, SIDE), Image.Resampling.BICUBIC).save(folder / f"{number}.jpg", quality=90)


def label(browser, link):
    """Wall seconds from opening the link until ten labels have arrived."""
    context = browser.new_context()
    context.set_default_timeout(120_000)
    page = context.new_page()
    began = time.perf_counter()
    page.goto(link)
    for turn in range(LABELS):
        page.wait_for_selector("desk-label[data-task] .content :is(img, .words)")
        page.keyboard.press("123"[turn % 3])
    page.wait_for_selector(".state[data-state='saved']")
    seconds = time.perf_counter() - began
    context.close()
    return seconds


def try_out(browser, hedgerow, source, compiled):
    """From the command to ten labels."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(compiled)}
    environment.pop("PYTHONPATH", None)  # what is installed, not what is in the repository
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    command = [hedgerow, "start", source, "--classes", CLASSES, "--no-browser", "--folder", f"{source}.hedgerow"]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True, env=environment)
    link = next(found[0] for line in process.stdout if (found := re.search(r"http\S+enter#\S+", line)))
    to_link = time.perf_counter() - began
    labels = label(browser, link)
    process.terminate()
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "start_wall_seconds": to_link,
        "ten_labels_wall_seconds": labels,
        "total_wall_seconds": to_link + labels,
        "command_cpu_seconds": cpu,
    }


def main():
    own = parser(__doc__.partition("\n\n")[0])
    own.add_argument("--data", type=Path, default=None, help="the folder with goemotions and the files of CIFAR")
    options = own.parse_args()
    data, share = (None, 20) if options.quick else (options.data, 1)
    with tempfile.TemporaryDirectory() as made, rooms.launch(rooms.find_chromium()) as browser:
        folder = Path(made)
        hedgerow, installed = install(folder)
        write_images(folder / "photos", read_images(data, IMAGES // share))
        write_texts(folder / "tickets.csv", read_texts(data, TEXTS // share))
        results = {
            "pip install": installed,
            "images": try_out(browser, hedgerow, folder / "photos", folder / "compiled-1"),
            "texts": try_out(browser, hedgerow, folder / "tickets.csv", folder / "compiled-2"),
        }
    settings = {"images": IMAGES // share, "side": SIDE, "texts": TEXTS // share, "labels": LABELS}
    save("newcomer", SEED, {**settings, "quick": options.quick}, results, options)


if __name__ == "__main__":
    main()
