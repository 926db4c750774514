"""Scripts that Spark runs, one for every shape of output, each with what is at its targets before."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.storing import by, store, table_of
from unshuffle.errors import FileProblem
from unshuffle.frozen import dataclass
from unshuffle.sstream import LayoutRequest, open_stream
from unshuffle.sstream.check import check

INPUT = pa.table({"a": list(range(6)), "b": [f"new {i}" for i in range(6)]})
OLD = pa.table({"a": [100, 101], "b": ["old 100", "old 101"]})
Rows = list[tuple[object, ...]]
NEW_ROWS: Rows = sorted(zip(*INPUT.to_pydict().values(), strict=True))
OLD_ROWS: Rows = sorted(zip(*OLD.to_pydict().values(), strict=True))

OUTPUTTER = """
from unshuffle.operators import Outputter

class Bars(Outputter):
    '''No newline at the end, so that the last byte is cut.'''
    def write(self, batches, file):
        rows = [row for batch in batches for row in batch.to_pylist()]
        file.write("\\n".join(f"{row['a']},{row['b']}" for row in rows).encode())
"""


@dataclass(frozen=True, slots=True)
class Target:
    """A place that a script writes. `output` is the rest of the OUTPUT statement after the rowset."""

    path: str
    output: str
    exists: bool = False  # before the script runs

    @property
    def is_stream(self) -> bool:
        return self.path.endswith(".ss")

    @property
    def statement(self) -> str:
        place = f'SSTREAM "@work/{self.path}"' if self.is_stream else f'"@work/{self.path}"'
        rowset = "lines" if self.path.endswith(".txt") else "r"
        return f"OUTPUT {rowset} TO {place} {self.output}{' OVERWRITE' if self.exists else ''};"


@dataclass(frozen=True, slots=True)
class ScriptShape:
    name: str
    targets: tuple[Target, ...]

    def script(self, data: Path, work: Path) -> str:
        lines = [
            f'r = EXTRACT a:long, b:string FROM "{data}/input.parquet" USING Parquet();',
            "lines = SELECT concat(a, ',', b) AS line FROM r;"
            if any(each.path.endswith(".txt") for each in self.targets)
            else "",
            *(each.statement.replace("@work", str(work)).replace("@data", str(data)) for each in self.targets),
        ]
        return "\n".join(lines)

    def prepare(self, folder: Path) -> None:
        for target in self.targets:
            if target.exists:
                _write_old(folder / target.path, target)


def data(folder: Path) -> None:
    """What the scripts read."""
    folder.mkdir(parents=True)
    pq.write_table(INPUT, folder / "input.parquet")
    (folder / "outputters.py").write_text(OUTPUTTER)
    store(folder / "reference.ss", OLD, LayoutRequest(by("a"), boundaries=((2,), (4,))))


def _write_old(path: Path, target: Target) -> None:
    if target.is_stream:
        store(path, OLD, LayoutRequest(by("a"), partitions=1))
        return
    path.mkdir(parents=True)
    if path.suffix == ".parquet":
        pq.write_table(OLD, path / "part-old.parquet")
    else:
        (path / "part-old.txt").write_text("".join(_line(path, row) for row in OLD_ROWS))


def _line(path: Path, row: tuple[object, ...]) -> str:
    a, b = row
    return f"{json.dumps({'a': a, 'b': b})}\n" if path.suffix == ".json" else f"{a},{b}\n"


def rows_at(path: Path, target: Target) -> Rows | None:
    """What a reader finds at a target; None if there is nothing. Raises if it is neither."""
    if target.is_stream:
        try:
            stream = open_stream(str(path))
        except FileProblem:
            return None
        assert check(stream) == (), check(stream)
        return sorted(table_of(stream))
    if not path.exists():
        return None
    files = [each for each in sorted(path.iterdir()) if not each.name.startswith((".", "_"))]
    rows = [row for each in files for row in _rows_of(each, path)]
    return sorted(rows)


def _rows_of(file: Path, target: Path) -> Rows:
    if target.suffix == ".parquet":
        return list(zip(*pq.read_table(file).to_pydict().values(), strict=True))
    lines = file.read_text().splitlines()
    if target.suffix == ".json":
        return [(row["a"], row["b"]) for row in map(json.loads, lines)]
    return [(int(a), b) for a, b in (line.split(",") for line in lines)]


def _outputs(*targets: tuple[str, str, bool]) -> tuple[Target, ...]:
    return tuple(Target(*each) for each in targets)


CSV, PARQUET, JSON, TEXT, BARS = (
    "USING Csv()",
    "USING Parquet()",
    "USING Json()",
    "USING Text()",
    "USING outputters.Bars()",
)
HASH = "HASH CLUSTERED BY a INTO 2"
SHAPES = (
    ScriptShape("csv", _outputs(("new/deep/a.csv", CSV, False))),
    ScriptShape("csv, replaced", _outputs(("a.csv", CSV, True))),
    ScriptShape("parquet, replaced", _outputs(("a.parquet", PARQUET, True))),
    ScriptShape("json, replaced", _outputs(("a.json", JSON, True))),
    ScriptShape("text", _outputs(("a.txt", TEXT, False))),
    ScriptShape("user outputter, replaced", _outputs(("a.csv", BARS, True))),
    ScriptShape("two outputs", _outputs(("a.csv", CSV, False), ("new/b.json", JSON, False))),
    ScriptShape(
        "three outputs, two replaced",
        _outputs(("a.csv", CSV, True), ("other/b.parquet", PARQUET, False), ("c.csv", CSV, True)),
    ),
    ScriptShape("stream, hash", _outputs(("a.ss", HASH, False))),
    ScriptShape("stream, next version in ranges", _outputs(("a.ss", "RANGE CLUSTERED BY a INTO 2", True))),
    ScriptShape(
        "stream, REFERENCE and KEY", _outputs(("a.ss", 'CLUSTERED BY a REFERENCE "@data/reference.ss" KEY (a)', False))
    ),
    ScriptShape("two streams, one new", _outputs(("a.ss", HASH, True), ("b.ss", f"{HASH} SORTED BY b DESC", False))),
    ScriptShape("stream and file, both replaced", _outputs(("a.ss", HASH, True), ("b.csv", CSV, True))),
)
