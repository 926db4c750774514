"""Values of columns as JSON. A value that JSON has no form for becomes an object that names its type."""

from __future__ import annotations

import base64
import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any


def encoded_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else {"float": repr(value)}
        case Decimal():
            return {"decimal": str(value)}
        case bytes():
            return {"bytes": base64.b64encode(value).decode("ascii")}
        case datetime.datetime():
            zoned = value.astimezone(datetime.UTC) if value.tzinfo is not None else value
            return {"timestamp": zoned.isoformat()}
        case datetime.date():
            return {"date": value.isoformat()}
        case _:
            raise TypeError(f"no JSON form for {type(value).__name__}")


_DECODERS: dict[str, Callable[[str], Any]] = {
    "float": float,
    "decimal": Decimal,
    "bytes": base64.b64decode,
    "timestamp": datetime.datetime.fromisoformat,
    "date": datetime.date.fromisoformat,
}


def decoded_value(content: Any) -> Any:
    if type(content) is dict:
        ((kind, text),) = content.items()
        return _DECODERS[kind](text)
    if type(content) is list:
        raise ValueError("a list is not a value")
    return content
