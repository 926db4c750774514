"""The TPC-H workload: its 22 queries and its data.

The query texts come from DuckDB's `tpch` extension (the package `duckdb-extension-tpch`, loaded from the installed file, so
nothing is downloaded), the data from `tpcgen-cli`. Both are byte-stable for one version and scale.

Spark 4 parses and runs all 22 texts as they are. Only the final semicolon is left off: a text that stands inside
another (`EXPLAIN ...`, `CREATE VIEW ... AS ...`) must not carry it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


@cache
def _texts() -> tuple[tuple[int, str], ...]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute(f"LOAD '{_extension()}'")
        rows = connection.execute("SELECT query_nr, query FROM tpch_queries() ORDER BY query_nr").fetchall()
    return tuple((number, text.strip().removesuffix(";").rstrip()) for number, text in rows)


def queries() -> dict[int, str]:
    """Query number (1 to 22) to text, with the validation parameters of the specification."""
    return dict(_texts())


def generate(folder: str | Path, scale: float) -> None:
    """Write every table as `folder/NAME.parquet`. Does nothing when all are there, at whatever scale.

    The tables are written into a sibling folder that is renamed at the end: a folder that exists is complete, also
    after an interrupted run, and of two concurrent runs one wins and the other discards its copy.
    """
    folder = Path(folder)
    if _complete(folder):
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        command = [_generator(), "tpch", "parquet", f"--scale-factor={scale}", f"--output-dir={unfinished}", "--quiet"]
        subprocess.run(command, check=True)
        unfinished.chmod(0o755)  # mkdtemp makes a private folder; data is for everyone
        try:
            os.rename(unfinished, folder)
        except OSError:
            if not _complete(folder):
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _complete(folder: Path) -> bool:
    return all((folder / f"{table}.parquet").is_file() for table in TABLES)


def _extension() -> Path:
    package = find_spec("duckdb_extension_tpch")
    for root in (package.submodule_search_locations or ()) if package else ():
        for found in sorted(Path(root).rglob("tpch.duckdb_extension")):
            return found
    raise FileNotFoundError("no tpch.duckdb_extension: pip install duckdb-extension-tpch")


def _generator() -> str:
    """The generator beside this interpreter, or on the path."""
    beside = Path(sys.executable).parent
    found = shutil.which("tpcgen-cli", path=str(beside)) or shutil.which("tpcgen-cli")
    if found is None:
        raise FileNotFoundError("no tpcgen-cli: pip install tpcgen-cli")
    return found
