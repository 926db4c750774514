"""The names of what a run keeps beside a target until its outputs are in place. `spark/io/commit_record.py` says more."""

from __future__ import annotations

import posixpath
import re

import pyarrow as pa
import pyarrow.fs

from unshuffle.catalog.files import file_system

COMMIT, DONE, OLD = ".commit", ".done", "-old"


def hidden_name(name: str, run: str) -> str:
    """The name, beside a target, of what belongs to a run."""
    return f".{name}.unshuffle-{run}"


def name_pattern(name: str) -> re.Pattern[str]:
    """Matches hidden names beside a target: the run, and the rest."""
    return re.compile(re.escape(hidden_name(name, "")) + r"([0-9a-f]{8})(.*)")


def is_unfinished(path: str) -> bool:
    """Whether a run that wrote this path has neither finished nor been undone. The next run undoes it."""
    try:
        system, inner = file_system(path)
        folder, name = posixpath.split(inner.rstrip("/"))
        infos = system.get_file_info(pa.fs.FileSelector(folder, allow_not_found=True))
    except (pa.ArrowException, OSError):
        return False
    matches = (name_pattern(name).fullmatch(info.base_name) for info in infos)
    return any(match is not None and match[2] in (COMMIT, DONE) for match in matches)
