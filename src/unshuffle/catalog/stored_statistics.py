"""Statistics of data that was analyzed, kept as JSON: beside the data, or in a catalog folder.

    data                    beside it
    a folder FOLDER         FOLDER/_unshuffle/statistics.json
    a file DIR/NAME         DIR/_NAME.statistics.json

Spark and pyarrow take no file for data whose name begins with `_`. With a catalog folder, the file has the name of the
data and a digest of its whole path.

The file names every data file with its size and the time of its last change. Statistics of data that has changed since
still steer plans, their row counts brought up to date. Keys and dependencies are facts, and believed only if every file
that is read is one that was analyzed and has not changed: what holds of all rows holds of some of them.
"""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from unshuffle.catalog.files import DataFile, absolute, is_uri
from unshuffle.catalog.statistics import ColumnStatistics, Histogram
from unshuffle.errors import FileProblem

_FORMAT = "unshuffle statistics"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class FileMark:
    """A data file as it was analyzed; its path is relative to the data's."""

    path: str
    size: int
    modified: int | None


@dataclass(frozen=True, slots=True)
class StoredColumn:
    name: str
    type: str  # Spark's name for it
    statistics: ColumnStatistics


@dataclass(frozen=True, slots=True)
class StoredStatistics:
    """What `analyze` found. `exact` is false when the distinct values were counted by a sketch and the rest on a sample;
    there are no keys and dependencies then."""

    root: str
    files: tuple[FileMark, ...]
    rows: int
    bytes: int
    exact: bool
    columns: tuple[StoredColumn, ...]
    keys: tuple[tuple[str, ...], ...] = ()
    dependencies: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    rising: tuple[tuple[str, tuple[str, ...]], ...] = ()  # columns that never fall when sorted by the first

    def all_analyzed(self, files: Sequence[DataFile]) -> bool:
        """Was every one of these files analyzed as it is now?"""
        return all_unchanged(self.files, self.root, files)

    def same_files(self, files: Sequence[DataFile]) -> bool:
        """Are these the files that were analyzed, all of them and unchanged?"""
        return len(files) == len(self.files) and self.all_analyzed(files)


def marks(files: Iterable[DataFile], root: str) -> tuple[FileMark, ...]:
    return tuple(FileMark(relative(file.path, root), file.size, file.modified) for file in files)


def all_unchanged(known: Iterable[FileMark], root: str, files: Iterable[DataFile]) -> bool:
    """Is every one of these files among the marked ones, as it was then?"""
    marked = {mark.path: mark for mark in known}

    def unchanged(mark: FileMark | None, file: DataFile) -> bool:
        return mark is not None and mark.size == file.size and mark.modified == file.modified is not None

    return all(unchanged(marked.get(relative(file.path, root)), file) for file in files)


def relative(path: str, root: str) -> str:
    """A path below another; of a file below itself, its name."""
    path, root = absolute(path), absolute(root)
    return path[len(root) + 1 :] if path.startswith(root + "/") else os.path.basename(path) if path == root else path


# --- where it is kept


def place_for(path: str, catalog: str | Path | None) -> Path | None:
    """Where statistics of a path are kept; None if only a catalog folder could hold them."""
    whole = absolute(path)
    if catalog is not None:
        digest = hashlib.sha256(whole.encode()).hexdigest()[:12]
        return Path(catalog) / f"{os.path.basename(whole) or 'data'}-{digest}.json"
    if is_uri(whole):
        return None
    where = Path(whole)
    return (
        where / "_unshuffle" / "statistics.json" if where.is_dir() else where.parent / f"_{where.name}.statistics.json"
    )


def find(paths: Sequence[str], base: str | None, files: Sequence[DataFile], catalog: str | Path | None) -> list[Path]:
    """Files that may hold statistics of what a scan reads, the most fitting first: of the path itself, of its only file,
    of the folder above."""
    asked: list[str] = [*paths] if len(paths) == 1 else []
    asked += [files[0].path] if len(files) == 1 else []
    asked += [base] if base is not None else []
    asked += [os.path.dirname(absolute(paths[0]))] if len(paths) == 1 else []
    found = dict.fromkeys(place_for(path, catalog) for path in asked)
    return [place for place in found if place is not None and place.is_file()]


def load(place: Path) -> StoredStatistics | None:
    """The statistics in a file; None if it is damaged or of another version: they are a help, never a need."""
    try:
        found = place.stat()
    except OSError:
        return None
    return _loaded(place, found.st_mtime_ns, found.st_size, found.st_ino)


@lru_cache(maxsize=64)
def _loaded(place: Path, *_: int) -> StoredStatistics | None:
    """Read once, until the file is another: every query of a session asks again."""
    try:
        return decode(json.loads(place.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return None


def save(found: StoredStatistics, place: Path) -> None:
    """Writes a file as a whole or not at all."""
    write_whole(place, encode(found))


def write_whole(place: Path, shown: dict[str, Any]) -> None:
    """JSON in a file that others see when it is complete."""
    text = json.dumps(shown, indent=1, ensure_ascii=False, allow_nan=False)
    unfinished = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(prefix=".unshuffle-", dir=place.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(unfinished, 0o644)  # mkstemp's are private; this is for everyone who may read the data
        os.replace(unfinished, place)
    except OSError as error:
        if unfinished is not None and os.path.exists(unfinished):
            os.unlink(unfinished)
        raise FileProblem(
            f"the statistics cannot be written to {str(place)!r}: {error.strerror}",
            hint="keep them in another folder with --catalog DIR",
        ) from None


# --- as JSON


def encode(found: StoredStatistics) -> dict[str, Any]:
    return {
        "format": _FORMAT,
        "version": _VERSION,
        "path": found.root,
        "rows": found.rows,
        "bytes": found.bytes,
        "exact": found.exact,
        "keys": [list(key) for key in found.keys],
        "dependencies": [{"from": list(left), "to": list(right)} for left, right in found.dependencies],
        "rising": [{"with": key, "columns": list(columns)} for key, columns in found.rising],
        "columns": [_encoded_column(column) for column in found.columns],
        "files": [{"path": file.path, "size": file.size, "modified": file.modified} for file in found.files],
    }


def _encoded_column(column: StoredColumn) -> dict[str, Any]:
    known = column.statistics
    shown: dict[str, Any] = {
        "name": column.name,
        "type": column.type,
        "distinct": known.distinct,
        "null_fraction": known.null_fraction,
        "low": encoded_value(known.low),
        "high": encoded_value(known.high),
        "width": known.width,
        "common": [[encoded_value(value), share] for value, share in known.common],
    }
    if known.histogram is not None:
        shown["histogram"] = {
            "bounds": [encoded_value(bound) for bound in known.histogram.bounds],
            "rows": list(known.histogram.rows),
            "distinct": list(known.histogram.distinct),
        }
    return shown


def decode(shown: dict[str, Any]) -> StoredStatistics:
    if shown["format"] != _FORMAT or shown["version"] != _VERSION:
        raise ValueError("another format")
    return StoredStatistics(
        shown["path"],
        tuple(FileMark(file["path"], file["size"], file["modified"]) for file in shown["files"]),
        shown["rows"],
        shown["bytes"],
        shown["exact"],
        tuple(_decoded_column(column) for column in shown["columns"]),
        tuple(tuple(key) for key in shown["keys"]),
        tuple((tuple(each["from"]), tuple(each["to"])) for each in shown["dependencies"]),
        tuple((each["with"], tuple(each["columns"])) for each in shown["rising"]),
    )


def _decoded_column(shown: dict[str, Any]) -> StoredColumn:
    histogram = shown.get("histogram")
    return StoredColumn(
        shown["name"],
        shown["type"],
        ColumnStatistics(
            shown["distinct"],
            shown["null_fraction"],
            decoded_value(shown["low"]),
            decoded_value(shown["high"]),
            shown["width"],
            tuple((decoded_value(value), share) for value, share in shown["common"]),
            Histogram(
                tuple(decoded_value(bound) for bound in histogram["bounds"]),
                tuple(histogram["rows"]),
                tuple(histogram["distinct"]),
            )
            if histogram is not None
            else None,
        ),
    )


def encoded_value(value: Any) -> Any:
    """A value as JSON; what JSON has no form for is an object that names its type."""
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


def decoded_value(shown: Any) -> Any:
    if type(shown) is dict:
        ((kind, text),) = shown.items()
        return _DECODERS[kind](text)
    if type(shown) is list:
        raise ValueError("a value of no known form")
    return shown
