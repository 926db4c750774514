"""Text that a terminal only shows.

Names and values are chosen by others, and a terminal obeys the control characters in them: it would change its title, hide a
line, or show another text than the one that is there.
"""

from __future__ import annotations

import json
import re

# All control characters but tabs and newlines, what changes the direction or the lines of text, halves of characters, and
# what is no character.
_UNPRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff\ufffe\uffff\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with control characters written as escapes: `\\x1b[2J`."""
    return _UNPRINTABLE.sub(lambda found: found[0].encode("unicode_escape").decode(), text.replace("\r\n", "\n"))


def json_text(content: object, indent: int | None = 1) -> str:
    """Content as JSON. JSON itself escapes only the control characters of ASCII."""
    text = json.dumps(content, indent=indent, ensure_ascii=False)
    return _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
