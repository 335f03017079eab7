"""Fill in docs/campaign.md what its commands print: the walk through a campaign, run as it stands.

python docs/make_campaign.py

A command is a line of a `console` block that begins with "$ "; a backslash continues it. All run in one new folder, in
the order of the page, and what they print replaces the lines below them. examples/campaign/walk.sh holds the same
commands; a test compares.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "campaign.md"
EXAMPLE = ROOT / "examples" / "campaign"
SCRIPT = EXAMPLE / "walk.sh"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"^\$ ((?:.*\\\n)*.*)$", re.MULTILINE)


def list_commands(page: str) -> list[str]:
    """The commands of the page, in order."""
    return [command for block in BLOCK.findall(page) for command in COMMAND.findall(block)]


def text() -> str:
    """The page, with what its commands print now."""
    with tempfile.TemporaryDirectory() as folder:
        walk = Path(folder) / "walk"
        walk.mkdir()
        for source in EXAMPLE.glob("*.py"):
            (walk / source.name).symlink_to(source)
        programs = Path(folder) / "bin"
        programs.mkdir()
        for name, module in (("python", ""), ("hedgerow", "-m hedgerow ")):  # of this environment
            (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n')
            (programs / name).chmod(0o755)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path, "COLUMNS": "110", "PYTHONPATH": str(ROOT / "src")}

        def run(command: re.Match[str]) -> str:
            done = subprocess.run(
                ["bash", "-c", command[1]], cwd=walk, env=environment, capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise RuntimeError(f"{command[1]}\n{done.stdout}{done.stderr}")
            return f"{command[0]}\n{done.stdout}".rstrip()

        def fill(block: re.Match[str]) -> str:
            commands = COMMAND.finditer(block[1])
            return "```console\n" + "\n".join(run(command) for command in commands) + "\n```"

        return BLOCK.sub(fill, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(text(), encoding="utf-8")
