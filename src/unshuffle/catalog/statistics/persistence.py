"""Where statistics are stored, as JSON: beside the data, or in a catalog folder.

    data                    stored beside it as
    a folder FOLDER         FOLDER/_unshuffle/_statistics.json
    a file DIR/NAME         DIR/_NAME.statistics.json

Spark and pyarrow ignore files whose names begin with `_`. The name of the folder is not enough: readers of `FOLDER/*` read
what is in it. (Statistics were in `FOLDER/_unshuffle/statistics.json` once. They are read from there, and move when they are
written again.) In a catalog folder, the file is named after the data and a digest
of its full path.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from unshuffle.catalog.files import DataFile, absolute, is_uri
from unshuffle.catalog.json_files import MAX_BYTES, Json, parse, read_bytes, reading
from unshuffle.catalog.statistics.statistics_json import decode, encode
from unshuffle.catalog.statistics.stored_statistics import StoredStatistics
from unshuffle.errors import FileProblem

FOLDER = "_unshuffle"
_EVERYONE_READS = 0o644

_Read = TypeVar("_Read")


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
        return local / FOLDER / "_statistics.json"
    return local.parent / f"_{local.name}.statistics.json"


def find(paths: Sequence[str], base: str | None, files: Sequence[DataFile], catalog: str | Path | None) -> list[Path]:
    """Existing files with statistics of what a scan reads, the most specific first: of the path itself, of its only file,
    of the parent folder."""
    data: list[str] = [*paths] if len(paths) == 1 else []
    data += [files[0].path] if len(files) == 1 else []
    data += [base] if base is not None else []
    data += [os.path.dirname(absolute(paths[0]))] if len(paths) == 1 else []
    return find_at(data, catalog)


def find_at(data: Sequence[str], catalog: str | Path | None) -> list[Path]:
    """Existing files with the statistics of the data at these paths."""
    candidates = dict.fromkeys(statistics_path(path, catalog) for path in data)
    places = (_present(path) for path in candidates if path is not None)
    return [path for path in places if is_usable(path)]


def _present(path: Path) -> Path:
    """The path, or the former one if only that exists."""
    former = _former(path)
    return former if former is not None and former.exists() and not path.exists() else path


def _former(path: Path) -> Path | None:
    is_in_folder = path.parent.name == FOLDER and path.name == "_statistics.json"
    return path.with_name("statistics.json") if is_in_folder else None


def is_usable(path: Path) -> bool:
    """Whether a file exists and is by someone who could have written the data beside it.

    Who can add files to a folder can also replace those in it, unless the folder is like /tmp: there, everyone can add files
    and only the owner of a file can replace it. A stranger's file there is ignored."""
    try:
        status, folders = path.stat(), [path.parent]
        if path.parent.name == FOLDER:
            folders.append(path.parent.parent)
        trusted = {0, os.geteuid(), *(folder.stat().st_uid for folder in folders[-1:])}
        is_shared = any(folder.stat().st_mode & stat.S_ISVTX for folder in folders)
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and (not is_shared or status.st_uid in trusted)


def load(path: Path) -> StoredStatistics | None:
    """The statistics in a file; None if there is none to read. Plans are possible without statistics."""
    hint = "run `unshuffle analyze` again, or remove the file; a plan needs no statistics"
    return load_json(path, decode, "statistics", hint)


def load_json(path: Path, decode: Callable[[Json], _Read], what: str, hint: str) -> _Read | None:
    """What a JSON file beside the data holds; None if there is no file to read. Raises a FileProblem if it holds anything
    that this package does not write."""
    try:
        status = path.stat()
        read: _Read = _loaded(path, decode, what, status.st_mtime_ns, status.st_size, status.st_ino)
        return read
    except OSError:
        return None
    except ValueError as error:
        raise FileProblem(f"the {what} in {str(path)!r} cannot be used: {error}", hint=hint) from None


@lru_cache(maxsize=128)
def _loaded(path: Path, decode: Callable[[Json], _Read], what: str, *_: int) -> _Read:
    """Every query of a session loads statistics, so an unchanged file is read once."""
    content = parse(read_bytes(path))
    return reading(f"the {what}", lambda: decode(content))


def save(statistics: StoredStatistics, path: Path) -> None:
    write_atomically(path, encode(statistics), _mode_of_data(statistics))
    former = _former(path)
    if former is not None:
        with suppress(OSError):  # it is not read any more
            former.unlink(missing_ok=True)


def _mode_of_data(statistics: StoredStatistics) -> int:
    """Statistics have values of the data in them, so only those who may read all of the data may read them."""
    mode = _EVERYONE_READS
    for file in statistics.files:
        root = statistics.root
        with suppress(OSError):  # not on a local disk
            status = os.stat(root if os.path.isfile(root) else os.path.join(root, file.path))
            mode &= status.st_mode if status.st_gid == os.getegid() else status.st_mode & ~stat.S_IRGRP
    return mode | stat.S_IRUSR | stat.S_IWUSR


def write_atomically(path: Path, content: dict[str, Any], mode: int = _EVERYONE_READS) -> None:
    """Writes JSON to a file that others see only when it is complete."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    if len(text.encode()) > MAX_BYTES:
        raise FileProblem(f"what would be written to {str(path)!r} has more than {MAX_BYTES >> 20} MB")
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(prefix=".unshuffle-", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, mode)  # mkstemp makes private files
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None and os.path.exists(temporary):
            os.unlink(temporary)
        raise FileProblem(
            f"the statistics cannot be written to {str(path)!r}: {error.strerror}",
            hint="store them in another folder with --catalog DIR",
        ) from None
