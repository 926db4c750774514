"""Arguments and options that several commands share.

A command is a function. Its parser's options are its parameters, by name.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError, _SubParsersAction
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeAlias

from unshuffle.errors import UserError

BAD_USAGE = 2
Commands: TypeAlias = "_SubParsersAction[ArgumentParser]"


def add_command(commands: Commands, command: Callable[..., None]) -> ArgumentParser:
    """A parser for a command, which is called what its function is called and described by the function's docstring."""
    parser = commands.add_parser(
        command.__name__, help=command.__doc__, description=command.__doc__, allow_abbrev=False
    )
    parser.set_defaults(command=command)
    return parser


def print_help(parser: ArgumentParser) -> NoReturn:
    """Answers a command line that names no command."""
    parser.print_help(sys.stderr)
    sys.exit(BAD_USAGE)


def add_file(parser: ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=Path, help="A .scope script or a .sql file.")


def add_tables(parser: ArgumentParser) -> None:
    add_repeatable(parser, "--tables", "DIR", "Offer every DIR/NAME.parquet and DIR/NAME.ss as table NAME.")


def add_param(parser: ArgumentParser) -> None:
    add_repeatable(parser, "--param", "NAME=VALUE", "Set a parameter that the script declares.")


def add_json(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--json", dest="as_json", action="store_true", help="Print JSON, and nothing else, on standard output."
    )


def add_catalog(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--catalog", metavar="DIR", type=Path, help="The folder for statistics. Default: beside the data."
    )


def add_without(parser: ArgumentParser) -> None:
    add_repeatable(parser, "--without", "RULE", "Plan without a rule; see `explain`.")


def add_master(parser: ArgumentParser) -> None:
    parser.add_argument("--master", metavar="M", help="Spark master. Default: this machine.")


def add_repeatable(parser: ArgumentParser, name: str, metavar: str, help: str) -> None:
    parser.add_argument(name, metavar=metavar, action="append", default=[], help=f"{help} Repeatable.")


def positive(text: str) -> int:
    """A whole number of at least 1."""
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def parse_params(texts: list[str]) -> dict[str, Any]:
    """The values of `--param NAME=VALUE`, by name."""
    params: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        name = name.strip()
        if not equals or not name:
            raise UserError(f"--param {text!r} is not NAME=VALUE")
        if name in params:
            raise UserError(f"--param {name!r} is given twice")
        params[name] = value
    return params
