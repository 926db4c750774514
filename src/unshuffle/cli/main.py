"""The entry point: all commands, and how errors become messages and exit codes."""

from __future__ import annotations

import atexit
import gc
import sys
import warnings
from argparse import ArgumentParser

from unshuffle.cli import analyze, compare, explain, run, stream
from unshuffle.cli.console import fail
from unshuffle.cli.options import print_help
from unshuffle.errors import NotOptimizedWarning, UnshuffleError
from unshuffle.garbage import OBJECTS_BETWEEN_COLLECTIONS

INTERRUPTED = 130
BROKEN_PIPE = 141


def main() -> None:
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)  # modules, too, live to the end
    atexit.register(gc.freeze)  # or else Python looks through all objects again before the process ends
    arguments = vars(_parser().parse_args())
    command = arguments.pop("command")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NotOptimizedWarning)  # the commands print these as notes
            command(**arguments)
    except UnshuffleError as error:
        fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        fail("interrupted; nothing was written", INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(BROKEN_PIPE)
    sys.exit(0)


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="unshuffle",
        description="Run, explain and compare SCOPE scripts and Spark SQL queries.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="store_const", dest="command", const=_print_version, help="Show versions.")
    parser.set_defaults(command=lambda: print_help(parser))
    commands = parser.add_subparsers(metavar="COMMAND")
    for module in (run, explain, compare, analyze, stream):
        module.add_parser(commands)
    return parser


def _print_version() -> None:
    from importlib.metadata import version

    print(f"unshuffle {version('unshuffle')}, pyspark {version('pyspark')}")
