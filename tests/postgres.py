"""A PostgreSQL server for tests, from Debian's packages (`apt-get install postgresql`), reached through a socket."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

FOUND = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
PASSWORD = "correct-horse"


class Server:
    """A server in a temporary folder, reached through a socket there; PostgreSQL refuses to run as root."""

    def __init__(self) -> None:
        self.programs = FOUND[-1].parent
        self.folder = Path(tempfile.mkdtemp(prefix="hedgerow-pg-", dir="/tmp"))  # sockets need short paths
        if os.geteuid() == 0:
            shutil.chown(self.folder, "postgres")
        self.data = self.folder / "data"
        self._run("initdb", "-D", self.data, "-A", "trust", "-U", "hedgerow", "-N", "-E", "UTF8", "--locale=C.UTF-8")
        self.start()

    def start(self) -> None:
        options = f"-k {self.folder} -c listen_addresses='' -c fsync=off -c max_connections=50"
        self._run("pg_ctl", "-D", self.data, "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self, mode: str = "fast") -> None:
        """mode: "immediate" is what a crash is."""
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def create(self, name: str) -> str:
        """A new database; returns its URL."""
        self._run("createdb", "-h", self.folder, "-U", "hedgerow", name)
        return f"postgresql://hedgerow:{PASSWORD}@/{name}?host={self.folder}"

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program: str, *arguments: object) -> None:
        command = [str(self.programs / program), *map(str, arguments)]
        if os.geteuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        # Not captured: pg_ctl's server would keep the pipe open.
        subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def find_reason() -> str | None:
    """Why there can be no server here; None if there can be one."""
    return None if FOUND else "PostgreSQL is not installed: apt-get install postgresql"
