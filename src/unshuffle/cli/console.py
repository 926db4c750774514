"""Standard output and standard error, and the messages that several commands print.

Rich is imported when something is first printed with it: `explain` prints plain text and does not wait for it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from unshuffle.printable import json_text, printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@cache
def out() -> Console:
    from rich.console import Console

    return Console(highlight=False, soft_wrap=True)


@cache
def err() -> Console:
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=True)


def escape(text: str) -> str:
    """Text that Rich prints as it is, brackets included, and that the terminal only shows."""
    from rich.markup import escape

    return escape(printable(text))


def print_json(content: Any) -> None:
    print(json_text(content))


def new_table(*headers: str) -> Table:
    from rich.table import Table

    return Table(*headers, show_edge=False, header_style="bold")


def fail(message: str, code: int) -> NoReturn:
    print_error(message)
    sys.exit(code)


def print_error(message: str) -> None:
    err().print(f"[bold red]error:[/bold red] {escape(message)}")


def print_notes(notes: Sequence[str]) -> None:
    for note in notes:
        err().print(f"Note: {printable(note)}", style="dim", markup=False, highlight=False)
