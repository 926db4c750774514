"""What the TPC workloads have in common: query texts from a DuckDB extension, data from `tpcgen-cli`.

An extension is a package of its own (`duckdb-extension-NAME`) and is loaded from the installed file, so nothing is
downloaded. A version always has the same texts, and a version and scale the same data.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path


def texts(name: str) -> tuple[tuple[int, str], ...]:
    """Number and text of every query of the extension `name`, without the final semicolon, so that a text can be part
    of another one (`EXPLAIN ...`, `CREATE VIEW ... AS ...`)."""
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{_extension(name)}'")
        rows = connection.execute(f"SELECT query_nr, query FROM {name}_queries() ORDER BY query_nr").fetchall()
    return tuple((number, text.strip().removesuffix(";").rstrip()) for number, text in rows)


def generate(name: str, tables: Sequence[str], folder: str | Path, scale: float) -> None:
    """Writes every table as `folder/NAME.parquet`. Does nothing if all exist, at any scale.

    The tables are written into a sibling folder that is renamed at the end. An existing folder is therefore complete,
    also after an interrupted run, and of two concurrent runs one wins and the other discards its copy.
    """
    folder = Path(folder)
    if _complete(folder, tables):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        command = [_generator(), name, "parquet", f"--scale-factor={scale}", f"--output-dir={unfinished}", "--quiet"]
        subprocess.run(command, check=True)
        unfinished.chmod(0o755)  # mkdtemp makes a private folder, but the data is for every user
        try:
            os.rename(unfinished, folder)
        except OSError:
            if not _complete(folder, tables):
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _complete(folder: Path, tables: Sequence[str]) -> bool:
    return all((folder / f"{table}.parquet").is_file() for table in tables)


def _extension(name: str) -> Path:
    package = find_spec(f"duckdb_extension_{name}")
    for root in (package.submodule_search_locations or ()) if package else ():
        for found in sorted(Path(root).rglob(f"{name}.duckdb_extension")):
            return found
    raise FileNotFoundError(f"no {name}.duckdb_extension: pip install duckdb-extension-{name}")


def _generator() -> str:
    """The generator beside this interpreter, or on the PATH."""
    beside = Path(sys.executable).parent
    found = shutil.which("tpcgen-cli", path=str(beside)) or shutil.which("tpcgen-cli")
    if found is None:
        raise FileNotFoundError("no tpcgen-cli: pip install tpcgen-cli")
    return found
