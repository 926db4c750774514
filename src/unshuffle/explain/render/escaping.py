"""Text that others chose, inside of HTML and SVG."""

from __future__ import annotations

import html

from unshuffle.printable import printable


def escape(text: str) -> str:
    return html.escape(printable(text))
