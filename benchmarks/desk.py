"""Goal: at the desk the next example is painted 50 ms (p95) after a key, whatever the server does; the first example
1.5 seconds after the link is opened; the density of ten million rows takes 0.3 seconds and 300 KB; on a campaign of ten
million rows the desk starts in two seconds and 500 MB; the page has at most 100 KB, gzipped.

All of it in a real chromium, without a graphics card. `keys`: 200 keys, one every 120 ms, from the time the browser has
for the key to the frame after the one in which the next example is in the page; beside it, for each kind of content, a
plain static page that does nothing but show the next of examples that are all there already. In a second run every
answer of the server to such a page comes half a second late. `first`: from opening the one-time link in a browser that
knows nothing of the desk to the frame with the first example; for the static page, from opening its address. `large`:
`hedgerow desk` as a process, from the command to its link and to the first byte of the page, the first example, and the
map, which was drawn before: the call for the density of all rows, and what is in the frame. All times are those of the
clock, so that the machine must be idle. The parts can be run one by one (`--part`); each has a result of its own.
"""

import asyncio
import http.server
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from hedgerow import Campaign
from hedgerow.desk import routes
from pools import make_pool
from runner import HERE, in_fresh_process, parser, save

sys.path.append(str(HERE.parent / "tests"))
import desks
import rooms

SEED, CLASSES = 0, ["cat", "dog", "fox"]
PARTS = ("keys", "first", "large", "weight")
PAUSE_MS, LATE_SECONDS = 120, 0.5
WIDTH = 16  # of the ten million embeddings: the desk never reads them
# Runs in the page. The frame after a change is painted is the first from which a message comes back.
METER = """
(() => {
  const find = () => document.querySelector("[data-task]")?.dataset.task;
  const isThere = () => {
    const content = document.querySelector(".content img, .content .words");
    return Boolean(content) && (content.tagName !== "IMG" || content.complete);
  };
  const afterPaint = (isDone, act) => requestAnimationFrame(() => {
    if (!isDone()) return afterPaint(isDone, act);
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = act;
    port2.postMessage(0);
  });
  window.times = [];
  window.afterPaint = afterPaint;
  addEventListener("keydown", (event) => {
    const before = find();
    afterPaint(() => find() !== before && isThere(), () => window.times.push(performance.now() - event.timeStamp));
  }, true);
  afterPaint(() => find() && isThere(), () => (window.first = performance.timeOrigin + performance.now()));
})();
"""
STATIC = """<!doctype html><meta charset="utf-8"><title>static</title>
<style>img {{ max-width: 100% }} .words {{ font-size: 1.3rem }}</style>
<main data-task="0"><div class="content"></div></main><script type="module">
const examples = {examples};
const main = document.querySelector("main");
const make = (one) => {{
  const made = document.createElement({image} ? "img" : "p");
  if ({image}) made.src = one; else made.textContent = one;
  made.className = "words";
  return made;
}};
const made = examples.map(make);
let at = 0;
const show = () => {{ main.firstElementChild.replaceChildren(made[at % made.length]); main.dataset.task = at; }};
await (made[0].decode?.() ?? null);
show();
addEventListener("keydown", () => {{ at += 1; show(); }});
</script>"""


# Campaigns.


def write_images(folder, n):
    """Smooth colors with some noise: as large as photos on a page, about 60 KB each."""
    from PIL import Image

    rng = np.random.default_rng(SEED)
    folder.mkdir()
    names = [f"{number}.jpg" for number in range(n)]
    for name in names:
        coarse = Image.fromarray(rng.integers(0, 256, (6, 8, 3), np.uint8)).resize((800, 600), Image.Resampling.BICUBIC)
        noisy = np.asarray(coarse, np.int16) + rng.integers(-12, 13, (600, 800, 1), np.int16)
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(folder / name, quality=80)
    return names


def make_texts(n):
    rng = np.random.default_rng(SEED)
    words = np.array([f"word{number}" for number in range(5000)])
    return [" ".join(words[rng.zipf(1.3, 40) % 5000]) for _ in range(n)]


@contextmanager
def open_kinds(n):
    """(kind, contents, campaign, folder with files) of texts and images; each campaign asks about all of its rows."""
    with tempfile.TemporaryDirectory() as made:
        for kind in ("texts", "images"):
            (Path(made) / kind).mkdir()
        files = Path(made) / "files"
        contents = {"texts": make_texts(n), "images": write_images(files, n)}
        columns = {"texts": "text", "images": "uri"}
        found = {kind: desks.begin(Path(made) / kind, contents[kind], columns[kind], clusters=None) for kind in columns}
        for campaign in found.values():
            campaign.next(n, strategy="random")
        yield [(kind, contents[kind], campaign, files) for kind, campaign in found.items()]
        for campaign in found.values():
            campaign.close_files()


# Servers.


@contextmanager
def serve_late(seconds):
    """Desks inside of this answer calls and send contents so much later. The files of the page come as always."""
    plain = routes.make_app

    def make_app(*arguments):
        app = plain(*arguments)

        async def wait(scope, receive, send):
            if scope.get("path", "").startswith(("/api/", "/media/")):
                await asyncio.sleep(seconds)
            await app(scope, receive, send)

        return wait

    with patch.object(routes, "make_app", make_app):
        yield


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass


@contextmanager
def serve_static(files, contents, image):
    """The address of a plain page with the same contents."""
    shown = [str(name) for name in contents]
    (files / "static.html").write_text(STATIC.format(examples=shown, image="true" if image else "false"))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(files)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/static.html"
    server.shutdown()


@contextmanager
def open_page(browser):
    context = browser.new_context()
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.add_init_script(METER)
    yield page
    context.close()


# Keys.


def press(page, keys):
    """Seconds from key to paint."""
    page.wait_for_function("() => window.first")
    page.wait_for_timeout(1500)  # the static page loads its images, the desk those of the next tasks
    for turn in range(keys):
        page.keyboard.press("123"[turn % 3])
        page.wait_for_timeout(PAUSE_MS)
    page.wait_for_function("n => window.times.length === n", arg=keys)
    return [one / 1000 for one in page.evaluate("() => window.times")]


def press_at_desk(browser, campaign, keys, root, late=0.0):
    with serve_late(late), desks.serve(campaign, roots=[root]) as running, open_page(browser) as page:
        page.goto(running.link)
        return press(page, keys)


def describe(times, **others):
    shares = {"p50_wall_seconds": 50, "p95_wall_seconds": 95, "max_wall_seconds": 100}
    return {
        "count": len(times),
        **{name: float(np.percentile(times, share)) for name, share in shares.items()},
        **others,
    }


def run_keys(options, browser):
    keys = 20 if options.quick else 200
    results = {}
    with open_kinds(4 * keys) as kinds:
        for kind, contents, campaign, files in kinds:
            with serve_static(files, contents[:50], kind == "images") as address, open_page(browser) as page:
                page.goto(address)
                plain = press(page, keys)
            desk = press_at_desk(browser, campaign, keys, files)
            late = press_at_desk(browser, campaign, keys, files, LATE_SECONDS)
            results[f"{kind}, a static page"] = describe(plain)
            for name, times in (("the desk", desk), ("the desk, the server half a second late", late)):
                ratio = float(np.percentile(times, 95) / np.percentile(plain, 95))
                results[f"{kind}, {name}"] = describe(times, p95_ratio=ratio)
    settings = {"keys": keys, "pause_ms": PAUSE_MS, "late_seconds": LATE_SECONDS, "quick": options.quick}
    save("desk_keys", SEED, settings, results, options, "desk")


# The first example.


def open_first(browser, address):
    """Seconds until the first example is painted, in a browser that was never here."""
    with open_page(browser) as page:
        began = time.time()
        page.goto(address() if callable(address) else address)
        page.wait_for_function("() => window.first")
        return page.evaluate("() => window.first") / 1000 - began


def run_first(options, browser):
    repeats = 2 if options.quick else 15
    results = {}
    with open_kinds(100) as kinds:
        for kind, contents, campaign, files in kinds:
            with serve_static(files, contents[:50], kind == "images") as address:
                results[f"{kind}, a static page"] = describe([open_first(browser, address) for _ in range(repeats)])
            with desks.serve(campaign, roots=[files]) as running:
                times = [open_first(browser, lambda: running.link) for _ in range(repeats)]
            results[f"{kind}, the desk"] = describe(times)
    save("desk_first", SEED, {"repeats": repeats, "quick": options.quick}, results, options, "desk")


# Ten million rows.


def build_large(folder, n, k):
    """A campaign of n texts with embeddings, clusters and a map, and a batch of k."""
    rng = np.random.default_rng(SEED)
    numbers = pa.array(np.arange(n)).cast(pa.string())
    texts = pa.compute.binary_join_element_wise("somebody wrote a sentence about", numbers, " ")
    pq.write_table(pa.table({"id": numbers, "text": texts}), folder / "pool.parquet")
    np.save(folder / "embeddings.npy", make_pool(n, WIDTH, seed=SEED))
    clusters = rng.integers(0, n // 10, n).astype(np.int32)
    given = {"classes": CLASSES, "clusters": clusters, "holdout": 1000, "embeddings": folder / "embeddings.npy"}
    with Campaign.init(folder / "campaign", folder / "pool.parquet", **given) as campaign:
        campaign.next(k, strategy="random", seed=SEED)
        campaign.atlas().draw()


@contextmanager
def run_command(folder):
    """(seconds to the link, seconds to the first byte of the page, process, link) of `hedgerow desk`."""
    command = [sys.executable, "-m", "hedgerow", "desk", str(folder / "campaign"), "--no-browser", "--port", "0"]
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    to_link = time.perf_counter() - began
    link = re.search(r"http\S+", line)[0]
    urllib.request.urlopen(link.partition("enter#")[0]).read(1)
    yield to_link, time.perf_counter() - began, process, link
    process.terminate()
    process.wait()


def read_memory(process, field):
    """Bytes of a field of the process's status."""
    text = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(rf"{field}:\s+(\d+)", text)[1]) * 1024


MAP = """
() => new Promise((done) => {
  const began = performance.now();
  performance.clearResourceTimings();
  location.hash = "map";
  window.afterPaint(() => document.querySelector("desk-map[data-shown]"), () => {
    const calls = performance.getEntriesByType("resource").filter((one) => one.name.endsWith("api/map"));
    done({ shown: performance.now() - began, calls: calls.map((one) => [one.duration, one.encodedBodySize]) });
  });
})
"""


def look_at_map(page):
    """What the MAP screen takes: the call for all rows, its bytes, and until examples are in the frame, too."""
    found = page.evaluate(MAP)
    page.evaluate("() => { location.hash = 'curves' }")
    page.wait_for_selector("desk-map", state="detached")
    duration, size = found["calls"][0]
    return {"density_wall_seconds": duration / 1000, "density_bytes": size, "shown_wall_seconds": found["shown"] / 1000}


def run_large(options, browser):
    n, k = (50_000, 1000) if options.quick else (10_000_000, 100_000)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        in_fresh_process(build_large, folder, n, k)
        starts = []
        for _ in range(1 if options.quick else 5):
            with run_command(folder) as (to_link, to_page, process, link):
                starts.append((to_link, to_page, read_memory(process, "VmHWM")))
                if len(starts) > 1:
                    continue
                first = open_first(browser, link)
                after_first = read_memory(process, "VmHWM")
        with run_command(folder) as (_, _, process, link), open_page(browser) as page:
            page.goto(link)
            page.wait_for_function("() => window.first")
            views = [look_at_map(page) for _ in range(6)]
            after_map = read_memory(process, "VmHWM")
    to_link, to_page, memory = (sorted(column) for column in zip(*starts, strict=True))
    middle = len(starts) // 2
    results = {
        "start": {
            "link_wall_seconds": to_link[middle],
            "page_wall_seconds": to_page[middle],
            "peak_rss_bytes": memory[-1],
            "all_page_wall_seconds": to_page,
        },
        "first example": {"wall_seconds": first, "peak_rss_bytes": after_first},
        "map, the first time": {**views[0], "peak_rss_bytes": after_map},
        "map, later": {name: float(np.median([one[name] for one in views[1:]])) for name in views[0]},
    }
    save("desk_large", SEED, {"rows": n, "batch": k, "quick": options.quick}, results, options, "desk")


# Weight.


def run_weight(options, browser):
    """Bytes of every file that the page loads, as they are sent."""
    with open_kinds(20) as kinds:
        _, _, campaign, files = kinds[0]
        with desks.serve(campaign, roots=[files]) as running, open_page(browser) as page:
            page.goto(running.link)
            page.wait_for_function("() => window.first")
            entries = (
                "() => [...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
            )
            sent = page.evaluate(f"{entries}.map((one) => [one.name, one.encodedBodySize, one.decodedBodySize])")
    own = [one for one in sent if "/api/" not in one[0]]
    results = {
        "files": len(own),
        "gzipped_bytes": sum(one[1] for one in own),
        "plain_bytes": sum(one[2] for one in own),
    }
    save("desk_weight", None, {"quick": options.quick}, results, options, "desk")


def main():
    made = parser(__doc__)
    made.add_argument("--part", action="append", choices=PARTS, help="measure this only; may be given several times")
    options = made.parse_args()
    runs = {"keys": run_keys, "first": run_first, "large": run_large, "weight": run_weight}
    with rooms.launch(rooms.find_chromium()) as browser:
        for part in options.part or PARTS:
            runs[part](options, browser)


if __name__ == "__main__":
    main()
