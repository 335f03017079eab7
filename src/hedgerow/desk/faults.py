"""What happens to errors that are our own fault: the terminal gets the traceback, pages a line that says so."""

import sys
import traceback


def report_fault() -> str:
    """Print the error that is being handled; returns what a page is told about it."""
    traceback.print_exc(file=sys.stderr)
    return "the desk failed; its terminal says why"
