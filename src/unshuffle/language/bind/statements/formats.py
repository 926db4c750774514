"""The built-in file formats of EXTRACT and OUTPUT, and the options each takes.

Options are passed to Spark's readers and writers unchanged. Spark ignores unknown options, so a misspelt `delimeter` would
silently read wrong columns. The names are therefore checked here.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import pyarrow as pa

from unshuffle.catalog import files
from unshuffle.catalog.files import DataFile
from unshuffle.catalog.schema import Column
from unshuffle.catalog.types import spark_name
from unshuffle.errors import NameProblem, Span, SyntaxProblem, TypeProblem, did_you_mean
from unshuffle.plan.expressions import Value
from unshuffle.plan.logical import Format

NAMES = ("Csv", "Tsv", "Text", "Json", "Parquet")

_DATES = {
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "timeZone",
    "locale",
    "encoding",
    "lineSep",
    "compression",
}
_READ_MANY = {"mode", "multiLine", "pathGlobFilter", "modifiedBefore", "modifiedAfter", "recursiveFileLookup"}
_CSV = {
    "header", "delimiter", "sep", "quote", "escape", "comment", "nullValue", "emptyValue", "nanValue", "positiveInf",
    "negativeInf", "ignoreLeadingWhiteSpace", "ignoreTrailingWhiteSpace", "maxColumns", "maxCharsPerColumn",
    "unescapedQuoteHandling", "charToEscapeQuoteEscaping", "quoteAll", "escapeQuotes", "enforceSchema",
}  # fmt: skip
_JSON = {
    "primitivesAsString", "prefersDecimal", "allowComments", "allowUnquotedFieldNames", "allowSingleQuotes",
    "allowNumericLeadingZeros", "allowBackslashEscapingAnyCharacter", "allowUnquotedControlChars",
    "allowNonNumericNumbers", "dropFieldIfAllNull", "ignoreNullFields",
}  # fmt: skip
_OPTIONS: dict[str, set[str]] = {
    "Csv": _CSV | _DATES | _READ_MANY,
    "Tsv": (_CSV - {"delimiter", "sep"}) | _DATES | _READ_MANY,
    "Json": _JSON | _DATES | _READ_MANY,
    "Text": {"lineSep", "wholetext", "compression", "encoding"} | _READ_MANY,
    "Parquet": {"compression", "datetimeRebaseMode", "int96RebaseMode", "mergeSchema"} | _READ_MANY,
}
_EXTENSIONS = {".csv": "Csv", ".tsv": "Tsv", ".txt": "Tsv", ".json": "Json", ".jsonl": "Json", ".parquet": "Parquet"}


def find(name: str) -> str | None:
    return next((known for known in NAMES if known.lower() == name.lower()), None)


def by_extension(path: str) -> str:
    """The format of an OUTPUT without USING: by the ending of the path, otherwise Parquet."""
    return _EXTENSIONS.get(os.path.splitext(path)[1].lower(), "Parquet")


def of_files(data_files: Sequence[DataFile]) -> str | None:
    """The format of an EXTRACT without USING: by the ending of the files or, where that says nothing, by how the first one
    begins. None if neither tells, or if they disagree."""
    filled = [file for file in data_files if file.size]
    endings = {_EXTENSIONS.get(_ending(file.path)) for file in data_files}
    if len(endings) == 1 and (found := endings.pop()) is not None:
        return found
    if not filled or any(_ending(file.path) in _EXTENSIONS for file in data_files):
        return None
    with files.input_file(filled[0].path) as content:
        begins = content.read(64).lstrip()
    if begins.startswith(b"PAR1"):
        return "Parquet"
    return "Json" if begins.startswith(b"{") else None


def _ending(path: str) -> str:
    """The ending of a file, without that of its compression."""
    stem, ending = os.path.splitext(path.lower())
    return os.path.splitext(stem)[1] if ending in (".gz", ".bz2", ".zst", ".snappy", ".lz4", ".deflate") else ending


def options(
    format: str, arguments: Sequence[tuple[str | None, Value]], role: str, span: Span
) -> tuple[tuple[str, Value], ...]:
    """The arguments of a built-in format as options, in Spark's spelling."""
    known = {option.lower(): option for option in _OPTIONS[format]}
    result: list[tuple[str, Value]] = []
    for name, value in arguments:
        if name is None:
            raise SyntaxProblem(
                f"the arguments of {format}() must have names", span, f"e.g. {format}({_example(format)})"
            )
        if name.lower() not in known:
            hint = did_you_mean(name, known.values()) or f"it takes {', '.join(sorted(known.values()))}"
            raise NameProblem(f"the {role} {format} has no option {name!r}", span, hint)
        result.append((known[name.lower()], value))
    return tuple(result)


def _example(format: str) -> str:
    return {"Csv": "header = true", "Tsv": "header = true", "Text": 'lineSep = "\\n"'}.get(
        format, 'compression = "gzip"'
    )


def check_writable(format: Format, columns: Sequence[Column], span: Span) -> None:
    """Refuses what Spark would refuse only after the job has run."""
    if format.name == "Text" and [c.type for c in columns] not in ([pa.string()], [None]):
        raise TypeProblem("Text() writes one column of type string", span, "select just that, or use Csv() or Tsv()")
    seen: set[str] = set()
    for column in columns:
        if column.name.lower() in seen:
            message = f"two columns to write are called {column.name!r}"
            raise NameProblem(message, span, "give one of them another name with AS")
        seen.add(column.name.lower())
        nested = column.type is not None and (
            pa.types.is_nested(column.type) or pa.types.is_binary(column.type) or pa.types.is_null(column.type)
        )
        if format.name in ("Csv", "Tsv") and nested:
            message = f"{format.name}() cannot write the column {column.name!r} of type {spark_name(column.type)}"
            raise TypeProblem(message, span, "use Json() or Parquet(), or cast it to string")
