"""What the scripts `make_*.py` write: parts of pages, and figures.

A page is written by hand, except for its parts from `<!-- generated: NAME -->` to `<!-- end -->`.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from hedgerow.report import frame_figure

FIGURES = Path(__file__).resolve().parent / "figures"
PART = re.compile(r"(?P<open><!-- generated: (?P<name>[\w/-]+) -->\n).*?(?P<close><!-- end -->)", re.DOTALL)


def fill_parts(page: str, make: Callable[[str], str]) -> str:
    """The page with its parts as `make` has them, by name."""
    return PART.sub(lambda found: f"{found['open']}\n{make(found['name'])}\n\n{found['close']}", page)


def frame(figure: str) -> str:
    """A figure of `hedgerow.report` as a file, on the page color of its own scheme: legible on a page of the other."""
    head, rest = frame_figure(figure).split("</style>", 1)
    return f'{head}</style><rect width="100%" height="100%" rx="6" fill="var(--page)"/>{rest}'


def write_figures(drawn: Mapping[str, str], folder: Path, *, mine: Callable[[str], bool] = lambda name: True) -> None:
    """Write figures by file name; those of the folder that are not drawn any more are removed.

    mine: which file names of the folder belong to the script.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.glob("*.svg"):
        if path.name not in drawn and mine(path.name):
            path.unlink()
    for name, figure in drawn.items():
        (folder / name).write_text(figure)
