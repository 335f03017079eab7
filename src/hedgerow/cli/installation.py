"""The command `hedgerow warm`: what is done once per installation."""

from hedgerow.cli.app import Json, report
from hedgerow.progress import watch


def warm(as_json: Json = False) -> None:
    """Compile everything now, so that later commands start at once.

    For container images and shared installations: run it as a user who may write to the installed package, and other
    users need not compile anything. Compiled code is kept beside the package, or in the folder NUMBA_CACHE_DIR.
    """
    from hedgerow.warming import warm as compile_all

    with watch(True) as progress:
        done = compile_all(progress=progress)
    facts = {"compiled": done.compiled, "folder": done.folder and str(done.folder), "seconds": done.seconds}
    where = f"kept in {done.folder}" if done.folder else "kept nowhere: set NUMBA_CACHE_DIR to a folder of your own"
    report(as_json, facts, f"{done.compiled:,} kernels compiled in {done.seconds:.0f} s, {where}")
