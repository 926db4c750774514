"""Where statistics are stored, as JSON: beside the data, or in a catalog folder.

    data                    stored beside it as
    a folder FOLDER         FOLDER/_unshuffle/statistics.json
    a file DIR/NAME         DIR/_NAME.statistics.json

Spark and pyarrow ignore files whose names begin with `_`. In a catalog folder, the file is named after the data and a digest
of its full path.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from unshuffle.catalog.files import DataFile, absolute, is_uri
from unshuffle.catalog.statistics.statistics_json import decode, encode
from unshuffle.catalog.statistics.stored_statistics import StoredStatistics
from unshuffle.errors import FileProblem


def statistics_path(data: str, catalog: str | Path | None) -> Path | None:
    """Where the statistics of the data at a path are stored; None if only a catalog folder could hold them."""
    path = absolute(data)
    if catalog is not None:
        digest = hashlib.sha256(path.encode()).hexdigest()[:12]
        return Path(catalog) / f"{os.path.basename(path) or 'data'}-{digest}.json"
    if is_uri(path):
        return None
    local = Path(path)
    if local.is_dir():
        return local / "_unshuffle" / "statistics.json"
    return local.parent / f"_{local.name}.statistics.json"


def find(paths: Sequence[str], base: str | None, files: Sequence[DataFile], catalog: str | Path | None) -> list[Path]:
    """Existing files with statistics of what a scan reads, the most specific first: of the path itself, of its only file,
    of the parent folder."""
    data: list[str] = [*paths] if len(paths) == 1 else []
    data += [files[0].path] if len(files) == 1 else []
    data += [base] if base is not None else []
    data += [os.path.dirname(absolute(paths[0]))] if len(paths) == 1 else []
    candidates = dict.fromkeys(statistics_path(path, catalog) for path in data)
    return [path for path in candidates if path is not None and path.is_file()]


def load(path: Path) -> StoredStatistics | None:
    """The statistics in a file; None if it is damaged or of another version. Plans are possible without statistics."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return _loaded(path, stat.st_mtime_ns, stat.st_size, stat.st_ino)


@lru_cache(maxsize=64)
def _loaded(path: Path, *_: int) -> StoredStatistics | None:
    """Every query of a session loads statistics, so an unchanged file is read once."""
    try:
        return decode(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return None


def save(statistics: StoredStatistics, path: Path) -> None:
    write_atomically(path, encode(statistics))


def write_atomically(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON to a file that others see only when it is complete."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".unshuffle-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)  # mkstemp makes private files; everyone who may read the data may read this
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise FileProblem(
            f"the statistics cannot be written to {str(path)!r}: {error.strerror}",
            hint="store them in another folder with --catalog DIR",
        ) from None
