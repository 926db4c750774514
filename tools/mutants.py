"""Can the tests fail? Plants one fault at a time in a copy of the package and expects the tests to notice.

    python tools/mutants.py             every fault
    python tools/mutants.py NAME...     those whose name contains a NAME

Each fault is one textual change, and a plausible one: a condition forgotten, a case of the papers taken as printed. The
tests named with it run first; if they pass, all property tests run. A fault that survives, or whose text is no longer
in the code, is a failure of this program.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("unshuffle/properties")


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    file: str
    old: str
    new: str
    tests: str


MUTANTS = (
    Mutant(
        "a global property truncated",
        "match_global.py",
        "if not columns or mine & ~reached:",
        "if not columns or not (columns & wanted or not mine & ~reached):",
        "match",
    ),
    Mutant(
        "clustering through a dependency the wrong way round, as printed in SIGMOD 2012",
        "match_global.py",
        "mine, reached = closures.mask(columns), closures.close(closures.mask(wanted))",
        "mine, reached = closures.mask(wanted), closures.close(closures.mask(columns))",
        "layouts",
    ),
    Mutant(
        "rule 2 judged by any overlap",
        "rules.py",
        "isinstance(after, Grouped) and before.columns <= after.columns",
        "isinstance(after, Grouped) and bool(before.columns & after.columns)",
        "rules",
    ),
    Mutant(
        "rule 6 with the dropped column still among the determining ones",
        "rules.py",
        "facts.determines(context | after.columns, before.columns)",
        "facts.determines(context | before.columns, before.columns)",
        "rules",
    ),
    Mutant(
        "rule 7 without the prefix condition",
        "rules.py",
        "facts.determines(columns_of(before[:place]), columns_of(before[place : place + 1]))",
        "facts.determines(columns_of(after), columns_of(before[place : place + 1]))",
        "rules",
    ),
    Mutant(
        "an action skipped because later ones determine it",
        "match_local.py",
        "while at < len(delivered) and not mask(_columns(delivered[at])) & ~runs:",
        "while at < len(delivered) and not mask(_columns(delivered[at])) & ~close("
        "runs | mask(columns_of(delivered[:at] + delivered[at + 1 :]))):",
        "match",
    ),
    Mutant(
        "a finer grouping taken for a coarser one",
        "match_local.py",
        "            if runs != target:\n                rest",
        "            if target & ~close(runs | mask(columns_of(delivered))):\n                rest",
        "match",
    ),
    Mutant(
        "null order ignored within partitions",
        "match_local.py",
        "given.nulls_first == wanted.nulls_first or wanted.column in facts.never_null\n",
        "True\n",
        "match",
    ),
    Mutant(
        "null order ignored between partitions",
        "match_global.py",
        "same_nulls = given.nulls_first == wanted.nulls_first or wanted.column in facts.never_null",
        "same_nulls = True",
        "match",
    ),
    Mutant(
        "direction ignored between partitions",
        "match_global.py",
        "or given.descending != wanted.descending or not same_nulls",
        "or not same_nulls",
        "match",
    ),
    Mutant(
        "an ordered layout truncated to a prefix of its keys",
        "match_global.py",
        "        if closures.bit(now[place].column) & ~seen:\n            return frozenset(",
        "        if False:\n            return frozenset(",
        "match",
    ),
    Mutant(
        "replicated rows taken for clustered ones",
        "match_global.py",
        "if isinstance(delivered, Replicated | Covering) or isinstance(required,",
        "if isinstance(delivered, Covering) or isinstance(required,",
        "match",
    ),
    Mutant(
        "a sort on a key taken for granted, as a grouping on it is",
        "rules.py",
        "if place is None or not isinstance(after[place], Grouped):",
        "if place is None:",
        "rules",
    ),
    Mutant(
        "a dependency on every column taken for a key",
        "closure.py",
        "        return mask\n",
        "        if self._rules and all(not right & ~mask for _, right in self._rules):\n"
        "            return EVERYTHING\n        return mask\n",
        "match dependencies",
    ),
    Mutant(
        "rows in one of several partitions taken for one partition",
        "match_global.py",
        "isinstance(required, Serial | Replicated | Covering):",
        "(isinstance(required, Serial | Replicated | Covering) and not isinstance(delivered, Grouped)):",
        "requirements",
    ),
    Mutant(
        "concat merge keeps sort order",
        "derive.py",
        "return (Grouped(columns), *local[count:])",
        "return local",
        "exchange",
    ),
    Mutant(
        "concat merge keeps groups of rows that come from several streams",
        "derive.py",
        "        if _clustered_on(streams, columns, facts):\n            return (Grouped",
        "        if True:\n            return (Grouped",
        "exchange",
    ),
    Mutant(
        "Table V as printed: a merge judged by the new partitioning",
        "derive.py",
        "given.local if alone else merged_local(how.merge, given, facts)",
        "given.local if alone else merged_local(how.merge, Delivered(how.scheme, given.local), facts)",
        "exchange",
    ),
    Mutant(
        "random merge keeps the order of its streams",
        "derive.py",
        "        case RandomMerge():\n            return ()",
        "        case RandomMerge():\n            return local",
        "exchange",
    ),
    Mutant(
        "sort merge keeps more than its keys though ties cross streams",
        "derive.py",
        "return local if _clustered_on(streams, columns_of(merge.keys), facts) else merge.keys",
        "return local",
        "exchange",
    ),
    Mutant(
        "sort merge of unsorted streams is sorted",
        "derive.py",
        "            if not implied_local(local, merge.keys, facts):\n                return ()\n",
        "",
        "exchange",
    ),
    Mutant(
        "sort-concat without ordered partitions",
        "derive.py",
        "if any(_stacked(way, merge, local, facts) for way in _both_ways(streams)):",
        "if implied_local(local, merge.keys, facts):",
        "exchange",
    ),
    Mutant(
        "sort-concat without order inside the partitions",
        "derive.py",
        "return put and implied_local(local, streams.keys, facts)",
        "return put",
        "exchange",
    ),
    Mutant(
        "repartitioning by other columns taken for a local split",
        "derive.py",
        "    if not all(facts.equal(one, other) for one, other in zip(given.columns, scheme.columns, strict=False)):\n"
        "        return False\n",
        "",
        "exchange",
    ),
    Mutant(
        "a split of scattered rows taken for clustered",
        "derive.py",
        "        case Serial():\n            return scheme\n",
        "        case Serial() | Scattered():\n            return scheme\n",
        "exchange",
    ),
    Mutant(
        "an FD-derived layout treated as co-partitioned",
        "joint.py",
        "known.equal(column, mine)",
        "known.determines((mine,), (column,))",
        "joint",
    ),
    Mutant(
        "an FD-derived layout treated as exactly the required one",
        "match.py",
        "if not facts.equal(d, r)]",
        "if not facts.determines((r,), (d,))]",
        "requirements",
    ),
    Mutant(
        "int and bigint hashed as one",
        "joint.py",
        "if each.function != first.function:",
        "if each.function.partitions != first.function.partitions:",
        "joint",
    ),
    Mutant(
        "hashed at another type than the join compares at",
        "joint.py",
        "    if type_ == key.type:\n        return True\n    first =",
        "    if type_ is not None:\n        return True\n    first =",
        "joint",
    ),
    Mutant(
        "two numbers of partitions joined pair-wise",
        "functions.py",
        "class HashFunction:\n    types: tuple[DataType, ...]\n    partitions: int\n",
        "class HashFunction:\n    types: tuple[DataType, ...]\n    partitions: int = field(compare=False)\n",
        "joint",
    ),
    Mutant(
        "two sampled ranges taken for one",
        "functions.py",
        "    name: str\n    partitions: int\n    instead",
        "    name: str = field(compare=False)\n    partitions: int\n    instead",
        "joint",
    ),
    Mutant(
        "an unknown function taken for the same as another",
        "functions.py",
        "        case Unknown():\n            return False\n        case Regrouped",
        "        case Unknown():\n            return True\n        case Regrouped",
        "joint",
    ),
    Mutant(
        "stray NULLs overlooked by a null-safe join",
        "joint.py",
        "    return not key.null_safe or not any(",
        "    return True or not any(",
        "joint",
    ),
    Mutant(
        "stray NULLs overlooked by a group-by",
        "delivered.py",
        "if strays and not isinstance(partitioning.claim, Serial):",
        "if False:",
        "requirements",
    ),
    Mutant(
        "stray NULLs forgiven through a dependency",
        "match.py",
        "        and all(any(facts.equal(d, r) for r in required.maximum) for d in delivered.columns)\n",
        "",
        "requirements",
    ),
    Mutant(
        "a range over cast values taken for the column's own order",
        "delivered.py",
        "if key.type is not column.type and not _same_order(key.type, column.type):",
        "if False:",
        "requirements",
    ),
    Mutant(
        "ranges divided by ranges of another column taken for ranges",
        "delivered.py",
        "return max(outer, inner, key=len) if outer and inner and alike else ()",
        "return outer + inner if outer and inner else ()",
        "exchange",
    ),
    Mutant(
        "partitions gathered from anywhere taken for ranges",
        "delivered.py",
        "case Regrouped() if list(function.groups) == sorted(function.groups):",
        "case Regrouped():",
        "exchange layouts",
    ),
    Mutant(
        "a hash folded by a number that does not divide is a plain hash",
        "functions.py",
        "folded = base.partitions % count == 0 and into ==",
        "folded = into ==",
        "layouts",
    ),
    Mutant(
        "rehashing reads only the partition of the same number",
        "layouts.py",
        "    step = gcd(function.partitions, partitions)\n    reads",
        "    step = max(function.partitions, partitions)\n    reads",
        "layouts",
    ),
    Mutant(
        "a descending string key refined to a prefix",
        "layouts.py",
        "    return not function.keys[last].descending and all(",
        "    return all(",
        "layouts",
    ),
    Mutant(
        "a refined range reads one neighbour too few",
        "layouts.py",
        "ends = [*(bisect_left(cuts, order(boundary)) for",
        "ends = [*(bisect_left(cuts, order(boundary)) - 1 for",
        "layouts",
    ),
    Mutant(
        "range boundaries closed on the right",
        "functions.py",
        "if self.compare(self.boundaries[middle], row) <= 0:",
        "if self.compare(self.boundaries[middle], row) < 0:",
        "layouts",
    ),
    Mutant(
        "outer join keeps an equality",
        "carry_join.py",
        "        (*one.classes, *other.classes),\n        keys,\n        one.never_null,\n",
        "        (*one.classes, *other.classes, *on.classes()),\n        keys,\n        one.never_null,\n",
        "carry",
    ),
    Mutant(
        "outer join keeps the dependencies of the null-extended side",
        "carry_join.py",
        "(d for d in every if d.determinant & solid),",
        "(d for d in every if d.determinant),",
        "carry",
    ),
    Mutant(
        "outer join takes a column compared null-safely for one that matching rows cannot have NULL",
        "carry.py",
        "compared = (c for pair in self.equal for c in pair)",
        "compared = (c for pair in (*self.equal, *self.null_safe) for c in pair)",
        "carry",
    ),
    Mutant(
        "full outer join takes stored NULLs of a compared column for invented ones",
        "carry_join.py",
        "one, other = _extended(left), _extended(right)",
        "one, other = (_extended(side, side.columns) for side in (left, right))",
        "carry",
    ),
    Mutant(
        "outer join keeps the constants of the null-extended side",
        "carry_join.py",
        "[*(EqualColumns(each.columns) for each in facts.classes), *nulls],",
        "[*facts.classes, *nulls],",
        "carry",
    ),
    Mutant(
        "outer join keeps NOT NULL of the null-extended side",
        "carry_join.py",
        "        keys,\n        one.never_null,\n",
        "        keys,\n        one.never_null | extended.facts.never_null,\n",
        "carry",
    ),
    Mutant(
        "outer join's columns determined whatever else the condition says",
        "carry_join.py",
        "frozenset(i for _, i in same))] if exact else []",
        "frozenset(i for _, i in same))]",
        "carry",
    ),
    Mutant(
        "outer join keeps keys though several rows match",
        "carry_join.py",
        "    if extended.facts.unique(inner for _, inner in same):\n        keys |= one.keys\n",
        "    keys |= one.keys\n",
        "carry",
    ),
    Mutant(
        "inner join keeps keys though several rows match",
        "carry_join.py",
        "    if other.unique(_matched(facts, left.columns, right.columns)):\n        keys |= one.keys\n",
        "    keys |= one.keys\n",
        "carry",
    ),
    Mutant(
        "full outer join's keys unique though both may be NULL",
        "carry_join.py",
        "        if a & left.facts.never_null or b & right.facts.never_null\n",
        "",
        "carry",
    ),
    Mutant(
        "anti-join keeps what matching rows would have",
        "carry_join.py",
        "        case JoinKind.ANTI:\n            return left.facts\n",
        "        case JoinKind.ANTI:\n            return restrict(_inner(left, right, on), left.columns)\n",
        "carry",
    ),
    Mutant(
        "lax dependencies believed where NULLs may be",
        "dependencies.py",
        "strict = [d for d in lax if d.determinant <= solid]",
        "strict = list(lax)",
        "carry dependencies",
    ),
    Mutant(
        "types that only compare equal after a cast are interchangeable",
        "equality.py",
        "    if one is None or other is None:\n        return False\n",
        "    if one is not None and other is not None:\n        return True\n",
        "carry dependencies joint",
    ),
    Mutant(
        "union keeps the dependencies of both sides",
        "carry.py",
        "Dependency(d.determinant | {tag}, d.dependent) for d in candidates for tag in apart]",
        "Dependency(d.determinant, d.dependent) for d in candidates]",
        "carry",
    ),
    Mutant(
        "union keeps a constant that differs",
        "equality.py",
        "found.append(EqualColumns(shared, one.constant if same else None))",
        "found.append(EqualColumns(shared, one.constant))",
        "carry",
    ),
    Mutant(
        "a key that loses a column is still a key",
        "cover.py",
        "        keys = set(minimal_keys(key for key in keys if column not in key))\n",
        "        keys = {key - {column} for key in keys}\n",
        "carry",
    ),
    Mutant(
        "broadcasting the side whose rows are all kept",
        "requirements.py",
        "else kind not in (JoinKind.RIGHT, JoinKind.FULL)\n",
        "else kind is not JoinKind.FULL\n",
        "requirements",
    ),
    Mutant(
        "rows copied to one partition too few",
        "functions.py",
        "return range(first, last + 1)",
        "return range(first, max(first + 1, last))",
        "covering",
    ),
    Mutant(
        "rows copied to ranges with other boundaries",
        "joint.py",
        "if layout.function != covering.function or not identifiable(layout.function):",
        "if not identifiable(layout.function):",
        "covering",
    ),
    Mutant(
        "rows copied to where ranges say, though NULL keys are anywhere",
        "joint.py",
        "    if strays and not facts.never_null.issuperset(layout.columns):\n",
        "    if strays and not facts.never_null.issuperset(layout.columns[: len(covering.columns)]):\n",
        "covering",
    ),
    Mutant(
        "ranges known by their first keys, though NULL keys are anywhere",
        "delivered.py",
        "    if strays or isinstance(layout.function.boundaries, Sampled)",
        "    if isinstance(layout.function.boundaries, Sampled)",
        "covering",
    ),
    Mutant(
        "rows that are copied to some partitions taken for rows that are there once",
        "match_global.py",
        "if isinstance(delivered, Replicated | Covering) or",
        "if isinstance(delivered, Replicated) or",
        "covering",
    ),
    Mutant(
        "full outer join keeps a layout as it was",
        "through.py",
        "return (_nulls_anywhere(left), _nulls_anywhere(right))",
        "return (left, right)",
        "through",
    ),
    Mutant(
        "full outer join USING keeps a layout that not every key was merged for",
        "through.py",
        "    if len(known) < len(pairs):\n        return Scattered(left.function.partitions)\n",
        "    if len(known) < len(pairs):\n        return left\n",
        "through",
    ),
    Mutant(
        "rows without match appended, and the order kept",
        "through.py",
        "return () if added else streamed",
        "return streamed",
        "through",
    ),
    Mutant(
        "a projection skips a sort column that is lost",
        "through.py",
        "                if name is None:\n                    break\n",
        "                if name is None:\n                    continue\n",
        "through",
    ),
    Mutant(
        "a projection keeps a layout on a column that is lost",
        "through.py",
        "if not self.outputs or given.nulls_apart or not self.determined(given.columns):",
        "if not self.outputs or given.nulls_apart:",
        "through",
    ),
    Mutant(
        "merge join of columns sorted otherwise than the join compares",
        "requirements.py",
        "    if not all(interchangeable(column.type, each.key.type) for each in by for column in each.key.columns):\n"
        "        return ()\n",
        "",
        "requirements",
    ),
    Mutant(
        "a streaming aggregate needs no grouping",
        "requirements.py",
        "local: Local = (Grouped(groups),) if ordered and groups else ()",
        "local: Local = ()",
        "requirements",
    ),
    Mutant(
        "Pmin ignored",
        "match.py",
        "if isinstance(required, Clustered) and required.minimum:",
        "if False and isinstance(required, Clustered):",
        "requirements",
    ),
)


def survives(mutant: Mutant, copy: Path) -> str | None:
    """None if the tests fail with the fault planted; else what went wrong."""
    target = copy / PACKAGE / mutant.file
    text = target.read_text()
    if text.count(mutant.old) != 1:
        return f"its text occurs {text.count(mutant.old)} times in {mutant.file}"
    planted = text.replace(mutant.old, mutant.new)
    if "field(" in mutant.new and "import dataclass, field" not in planted:
        planted = planted.replace("import dataclass\n", "import dataclass, field\n", 1)
    target.write_text(planted)
    try:
        first = [f"tests/properties/test_{name}.py" for name in mutant.tests.split()]
        return None if fails(first, copy) or fails(["tests/properties"], copy) else "no test fails"
    finally:
        target.write_text(text)


def fails(tests: list[str], source: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "UNSHUFFLE_MUTANTS": "1"}
    environment.pop("UNSHUFFLE_SOAK", None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or "error" in done.stdout.splitlines()[-1]:
        raise SystemExit(f"pytest did not run:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.returncode == 1


def main(wanted: list[str]) -> int:
    chosen = [m for m in MUTANTS if not wanted or any(part in m.name for part in wanted)]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src", copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        if not wanted and fails(["tests/properties"], copy):
            raise SystemExit("the tests fail before any fault is planted")
        for mutant in chosen:
            began = time.perf_counter()
            why = survives(mutant, copy)
            verdict = "caught" if why is None else f"SURVIVES: {why}"
            print(f"{verdict:8} {time.perf_counter() - began:5.1f} s  {mutant.name}", flush=True)
            bad += why is not None
    print(f"{len(chosen) - bad} of {len(chosen)} faults caught")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
