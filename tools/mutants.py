"""Checks that the tests can fail: plants one fault at a time in a copy of the package, and expects a test to fail.

    python tools/mutants.py             every fault
    python tools/mutants.py NAME...     the faults whose name contains a NAME

A fault is one plausible change of the text: a forgotten condition, or a case of the papers taken as printed. The tests
named with the fault run first; if they pass, all property tests run. The program fails if a fault survives, or if its
text is no longer in the code.
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
    """One planted fault: in `file`, `old` becomes `new`. `tests` names the test files most likely to fail, as
    `folder/subject` for tests/properties/folder/test_subject.py."""

    name: str
    file: str
    old: str
    new: str
    tests: str

    def test_files(self) -> list[str]:
        folders = (name.rpartition("/") for name in self.tests.split())
        return [f"tests/properties/{folder}/test_{subject}.py" for folder, _, subject in folders]


MUTANTS = (
    Mutant(
        "a global property truncated",
        "matching/match_global.py",
        "if not columns or mine & ~reached:",
        "if not columns or not (columns & target or not mine & ~reached):",
        "matching/match",
    ),
    Mutant(
        "clustering through a dependency the wrong way round, as printed in SIGMOD 2012",
        "matching/match_global.py",
        "mine, reached = closures.mask(columns), closures.close(closures.mask(target))",
        "mine, reached = closures.mask(target), closures.close(closures.mask(columns))",
        "layouts/related_layouts",
    ),
    Mutant(
        "rule 2 judged by any overlap",
        "matching/inference_rules.py",
        "isinstance(after, Grouped) and before.columns <= after.columns",
        "isinstance(after, Grouped) and bool(before.columns & after.columns)",
        "matching/inference_rules",
    ),
    Mutant(
        "rule 6 with the dropped column still among the determining ones",
        "matching/inference_rules.py",
        "facts.determines(context | after.columns, before.columns)",
        "facts.determines(context | before.columns, before.columns)",
        "matching/inference_rules",
    ),
    Mutant(
        "rule 7 without the prefix condition",
        "matching/inference_rules.py",
        "facts.determines(columns_of(before[:place]), columns_of(before[place : place + 1]))",
        "facts.determines(columns_of(after), columns_of(before[place : place + 1]))",
        "matching/inference_rules",
    ),
    Mutant(
        "an action skipped because later ones determine it",
        "matching/match_local.py",
        "while at < len(delivered) and not mask(_columns(delivered[at])) & ~runs:",
        "while at < len(delivered) and not mask(_columns(delivered[at])) & ~close("
        "runs | mask(columns_of(delivered[:at] + delivered[at + 1 :]))):",
        "matching/match",
    ),
    Mutant(
        "a finer grouping taken for a coarser one",
        "matching/match_local.py",
        "            if runs != target:\n                rest",
        "            if target & ~close(runs | mask(columns_of(delivered))):\n                rest",
        "matching/match",
    ),
    Mutant(
        "null order ignored within partitions",
        "matching/match_local.py",
        "delivered.nulls_first == required.nulls_first or required.column in facts.never_null\n",
        "True\n",
        "matching/match",
    ),
    Mutant(
        "null order ignored between partitions",
        "matching/match_global.py",
        "same_nulls = given.nulls_first == wanted.nulls_first or wanted.column in facts.never_null",
        "same_nulls = True",
        "matching/match",
    ),
    Mutant(
        "direction ignored between partitions",
        "matching/match_global.py",
        "or given.descending != wanted.descending or not same_nulls",
        "or not same_nulls",
        "matching/match",
    ),
    Mutant(
        "an ordered layout truncated to a prefix of its keys",
        "matching/match_global.py",
        "        if closures.bit(now[place].column) & ~seen:\n            return frozenset(",
        "        if False:\n            return frozenset(",
        "matching/match",
    ),
    Mutant(
        "replicated rows taken for clustered ones",
        "matching/match_global.py",
        "if isinstance(delivered, Replicated | TargetedBroadcast) or isinstance(\n",
        "if isinstance(delivered, TargetedBroadcast) or isinstance(\n",
        "matching/match",
    ),
    Mutant(
        "a sort on a key taken for granted, as a grouping on it is",
        "matching/inference_rules.py",
        "if place is None or not isinstance(after[place], Grouped):",
        "if place is None:",
        "matching/inference_rules",
    ),
    Mutant(
        "a dependency on every column taken for a key",
        "facts/closure.py",
        "        return mask\n",
        "        if self._rules and all(not right & ~mask for _, right in self._rules):\n"
        "            return EVERYTHING\n        return mask\n",
        "matching/match facts/dependencies",
    ),
    Mutant(
        "rows in one of several partitions taken for one partition",
        "matching/match_global.py",
        "        required, Serial | Replicated | TargetedBroadcast\n    ):",
        "        required, Serial | Replicated | TargetedBroadcast\n    ) and not isinstance(delivered, Grouped):",
        "matching/operator_requirements",
    ),
    Mutant(
        "concat merge keeps sort order",
        "layouts/exchange_result.py",
        "return (Grouped(columns), *local[count:])",
        "return local",
        "layouts/exchange",
    ),
    Mutant(
        "concat merge keeps groups of rows that come from several streams",
        "layouts/exchange_result.py",
        "        if _clustered_on(streams, columns, facts):\n            return (Grouped",
        "        if True:\n            return (Grouped",
        "layouts/exchange",
    ),
    Mutant(
        "Table V as printed: a merge judged by the new partitioning",
        "layouts/exchange_result.py",
        "given.local if alone else merged_local(how.merge, given, facts)",
        "given.local if alone else merged_local(how.merge, Delivered(how.scheme, given.local), facts)",
        "layouts/exchange",
    ),
    Mutant(
        "random merge keeps the order of its streams",
        "layouts/exchange_result.py",
        "        case RandomMerge():\n            return ()",
        "        case RandomMerge():\n            return local",
        "layouts/exchange",
    ),
    Mutant(
        "sort merge keeps more than its keys though ties cross streams",
        "layouts/exchange_result.py",
        "return local if _clustered_on(streams, columns_of(merge.keys), facts) else merge.keys",
        "return local",
        "layouts/exchange",
    ),
    Mutant(
        "sort merge of unsorted streams is sorted",
        "layouts/exchange_result.py",
        "            if not implied_local(local, merge.keys, facts):\n                return ()\n",
        "",
        "layouts/exchange",
    ),
    Mutant(
        "sort-concat without ordered partitions",
        "layouts/exchange_result.py",
        "if any(_stacked(way, merge, local, facts) for way in _both_ways(streams)):",
        "if implied_local(local, merge.keys, facts):",
        "layouts/exchange",
    ),
    Mutant(
        "sort-concat without order inside the partitions",
        "layouts/exchange_result.py",
        "return in_order and implied_local(local, streams.keys, facts)",
        "return in_order",
        "layouts/exchange",
    ),
    Mutant(
        "repartitioning by other columns taken for a local split",
        "layouts/exchange_result.py",
        "    if not all(facts.equal(one, other) for one, other in zip(given.columns, scheme.columns, strict=False)):\n"
        "        return False\n",
        "",
        "layouts/exchange",
    ),
    Mutant(
        "a split of scattered rows taken for clustered",
        "layouts/exchange_result.py",
        "        case Serial():\n            return scheme\n",
        "        case Serial() | UnknownPartitioning():\n            return scheme\n",
        "layouts/exchange",
    ),
    Mutant(
        "an FD-derived layout treated as co-partitioned",
        "matching/joint.py",
        "known.equal(column, mine)",
        "known.determines((mine,), (column,))",
        "matching/joint",
    ),
    Mutant(
        "an FD-derived layout treated as exactly the required one",
        "matching/match.py",
        "if not facts.equal(d, r)]\n    if unequal:",
        "if not facts.determines((r,), (d,))]\n    if unequal:",
        "matching/operator_requirements",
    ),
    Mutant(
        "int and bigint hashed as one",
        "matching/joint.py",
        "if each.function != first.function:",
        "if each.function.partitions != first.function.partitions:",
        "matching/joint",
    ),
    Mutant(
        "hashed at another type than the join compares at",
        "matching/joint.py",
        "    if type_ == key.type:\n        return True\n    first =",
        "    if type_ is not None:\n        return True\n    first =",
        "matching/joint",
    ),
    Mutant(
        "two numbers of partitions joined pair-wise",
        "layouts/partition_functions.py",
        "class HashFunction:\n    types: tuple[DataType, ...]\n    partitions: int\n",
        "class HashFunction:\n    types: tuple[DataType, ...]\n    partitions: int = field(compare=False)\n",
        "matching/joint",
    ),
    Mutant(
        "two sampled ranges taken for one",
        "layouts/partition_functions.py",
        "    name: str\n    partitions: int\n    planned_skew",
        "    name: str = field(compare=False)\n    partitions: int\n    planned_skew",
        "matching/joint",
    ),
    Mutant(
        "an unknown function taken for the same as another",
        "layouts/partition_functions.py",
        "        case UnknownFunction():\n            return False\n        case RegroupedFunction",
        "        case UnknownFunction():\n            return True\n        case RegroupedFunction",
        "matching/joint",
    ),
    Mutant(
        "stray NULLs overlooked by a null-safe join",
        "matching/joint.py",
        "    return not key.null_safe or not any(",
        "    return True or not any(",
        "matching/joint",
    ),
    Mutant(
        "stray NULLs overlooked by a group-by",
        "layouts/delivered.py",
        "if misplaced_nulls and not isinstance(partitioning.formula, Serial):",
        "if False:",
        "matching/operator_requirements",
    ),
    Mutant(
        "stray NULLs forgiven through a dependency",
        "matching/match.py",
        "        and all(any(facts.equal(d, r) for r in required.maximum) for d in delivered.columns)\n",
        "",
        "matching/operator_requirements",
    ),
    Mutant(
        "a range over cast values taken for the column's own order",
        "layouts/delivered.py",
        "if key.type is not column.type and not _same_order(key.type, column.type):",
        "if False:",
        "matching/operator_requirements",
    ),
    Mutant(
        "ranges divided by ranges of another column taken for ranges",
        "layouts/delivered.py",
        "return max(outer, inner, key=len) if outer and inner and alike else ()",
        "return outer + inner if outer and inner else ()",
        "layouts/exchange",
    ),
    Mutant(
        "partitions gathered from anywhere taken for ranges",
        "layouts/delivered.py",
        "case RegroupedFunction() if list(function.groups) == sorted(function.groups):",
        "case RegroupedFunction():",
        "layouts/exchange layouts/related_layouts",
    ),
    Mutant(
        "a hash folded by a number that does not divide is a plain hash",
        "layouts/partition_functions.py",
        "folded = base.partitions % count == 0 and into ==",
        "folded = into ==",
        "layouts/related_layouts",
    ),
    Mutant(
        "rehashing reads only the partition of the same number",
        "layouts/related_layouts.py",
        "step = gcd(source.partitions, target.partitions)",
        "step = max(source.partitions, target.partitions)",
        "layouts/related_layouts",
    ),
    Mutant(
        "a descending string key refined to a prefix",
        "layouts/related_layouts.py",
        "    return not function.keys[last].descending and all(",
        "    return all(",
        "layouts/related_layouts",
    ),
    Mutant(
        "a refined range reads one neighbour too few",
        "layouts/related_layouts.py",
        "ends = [*(bisect_left(cuts, order(boundary)) for",
        "ends = [*(bisect_left(cuts, order(boundary)) - 1 for",
        "layouts/related_layouts",
    ),
    Mutant(
        "range boundaries closed on the right",
        "layouts/partition_functions.py",
        "if self.compare(self.boundaries[middle], row) <= 0:",
        "if self.compare(self.boundaries[middle], row) < 0:",
        "layouts/related_layouts",
    ),
    Mutant(
        "outer join keeps an equality",
        "facts/propagate_join.py",
        "        (*one.classes, *other.classes),\n        keys,\n        one.never_null,\n",
        "        (*one.classes, *other.classes, *on.classes()),\n        keys,\n        one.never_null,\n",
        "facts/propagate",
    ),
    Mutant(
        "outer join keeps the dependencies of the null-extended side",
        "facts/propagate_join.py",
        "(d for d in every if d.determinant & not_null),",
        "(d for d in every if d.determinant),",
        "facts/propagate",
    ),
    Mutant(
        "outer join takes a column compared null-safely for one that matching rows cannot have NULL",
        "facts/propagate.py",
        "compared = (c for pair in self.equal for c in pair)",
        "compared = (c for pair in (*self.equal, *self.null_safe) for c in pair)",
        "facts/propagate",
    ),
    Mutant(
        "full outer join takes stored NULLs of a compared column for invented ones",
        "facts/propagate_join.py",
        "one, other = extended(left), extended(right)",
        "one, other = (extended(side, side.columns) for side in (left, right))",
        "facts/propagate",
    ),
    Mutant(
        "outer join keeps the constants of the null-extended side",
        "facts/propagate_join.py",
        "[*(EqualColumns(each.columns) for each in facts.classes), *nulls],",
        "[*facts.classes, *nulls],",
        "facts/propagate",
    ),
    Mutant(
        "outer join keeps NOT NULL of the null-extended side",
        "facts/propagate_join.py",
        "        keys,\n        one.never_null,\n",
        "        keys,\n        one.never_null | padded.facts.never_null,\n",
        "facts/propagate",
    ),
    Mutant(
        "outer join's columns determined whatever else the condition says",
        "facts/propagate_join.py",
        "frozenset(i for _, i in same))] if exact else []",
        "frozenset(i for _, i in same))]",
        "facts/propagate",
    ),
    Mutant(
        "outer join keeps keys though several rows match",
        "facts/propagate_join.py",
        "    if padded.facts.unique(inner for _, inner in same):\n        keys |= one.keys\n",
        "    keys |= one.keys\n",
        "facts/propagate",
    ),
    Mutant(
        "inner join keeps keys though several rows match",
        "facts/propagate_join.py",
        "    if other.unique(_matched(facts, left.columns, right.columns)):\n        keys |= one.keys\n",
        "    keys |= one.keys\n",
        "facts/propagate",
    ),
    Mutant(
        "full outer join's keys unique though both may be NULL",
        "facts/propagate_join.py",
        "        if a & left.facts.never_null or b & right.facts.never_null\n",
        "",
        "facts/propagate",
    ),
    Mutant(
        "anti-join keeps what matching rows would have",
        "facts/propagate_join.py",
        "        case JoinKind.ANTI:\n            return left.facts\n",
        "        case JoinKind.ANTI:\n            return restrict(_inner(left, right, on), left.columns)\n",
        "facts/propagate",
    ),
    Mutant(
        "lax dependencies believed where NULLs may be",
        "facts/dependencies.py",
        "strict = [d for d in lax if d.determinant <= not_null]",
        "strict = list(lax)",
        "facts/propagate facts/dependencies",
    ),
    Mutant(
        "types that only compare equal after a cast are interchangeable",
        "facts/equality.py",
        "    if one is None or other is None:\n        return False\n",
        "    if one is not None and other is not None:\n        return True\n",
        "facts/propagate facts/dependencies matching/joint",
    ),
    Mutant(
        "union keeps the dependencies of both sides",
        "facts/propagate.py",
        "Dependency(d.determinant | {tag}, d.dependent) for d in candidates for tag in tags]",
        "Dependency(d.determinant, d.dependent) for d in candidates]",
        "facts/propagate",
    ),
    Mutant(
        "union keeps a constant that differs",
        "facts/equality.py",
        "common.append(EqualColumns(shared, one.constant if same else None))",
        "common.append(EqualColumns(shared, one.constant))",
        "facts/propagate",
    ),
    Mutant(
        "a key that loses a column is still a key",
        "facts/cover.py",
        "        keys = set(minimal_keys(key for key in keys if column not in key))\n",
        "        keys = {key - {column} for key in keys}\n",
        "facts/propagate",
    ),
    Mutant(
        "broadcasting the side whose rows are all kept",
        "matching/operator_requirements.py",
        "else kind not in (JoinKind.RIGHT, JoinKind.FULL)\n",
        "else kind is not JoinKind.FULL\n",
        "matching/operator_requirements",
    ),
    Mutant(
        "rows copied to one partition too few",
        "layouts/partition_functions.py",
        "return range(first, last + 1)",
        "return range(first, max(first + 1, last))",
        "layouts/targeted_broadcast",
    ),
    Mutant(
        "rows copied to ranges with other boundaries",
        "matching/joint.py",
        "if layout.function != copies.function or not identifiable(layout.function):",
        "if not identifiable(layout.function):",
        "layouts/targeted_broadcast",
    ),
    Mutant(
        "rows copied to where ranges say, though NULL keys are anywhere",
        "matching/joint.py",
        "    if misplaced_nulls and not facts.never_null.issuperset(layout.columns):\n",
        "    if misplaced_nulls and not facts.never_null.issuperset(layout.columns[: len(copies.columns)]):\n",
        "layouts/targeted_broadcast",
    ),
    Mutant(
        "ranges known by their first keys, though NULL keys are anywhere",
        "layouts/delivered.py",
        "        misplaced_nulls\n        or isinstance(",
        "        isinstance(",
        "layouts/targeted_broadcast",
    ),
    Mutant(
        "rows that are copied to some partitions taken for rows that are there once",
        "matching/match_global.py",
        "if isinstance(delivered, Replicated | TargetedBroadcast) or isinstance(\n",
        "if isinstance(delivered, Replicated) or isinstance(\n",
        "layouts/targeted_broadcast",
    ),
    Mutant(
        "full outer join keeps a layout as it was",
        "layouts/propagate.py",
        "return (_with_nulls_anywhere(left), _with_nulls_anywhere(right))",
        "return (left, right)",
        "layouts/propagate",
    ),
    Mutant(
        "rows without match appended, and the order kept",
        "layouts/propagate.py",
        "return () if appends_unmatched else streamed",
        "return streamed",
        "layouts/propagate",
    ),
    Mutant(
        "a projection skips a sort column that is lost",
        "layouts/propagate.py",
        "                if name is None:\n                    break\n",
        "                if name is None:\n                    continue\n",
        "layouts/propagate",
    ),
    Mutant(
        "a projection keeps a layout on a column that is lost",
        "layouts/propagate.py",
        "if not self.outputs or given.nulls_anywhere or not self.determined(given.columns):",
        "if not self.outputs or given.nulls_anywhere:",
        "layouts/propagate",
    ),
    Mutant(
        "merge join of columns sorted otherwise than the join compares",
        "matching/operator_requirements.py",
        "    if not all(interchangeable(column.type, each.key.type) for each in by for column in each.key.columns):\n"
        "        return ()\n",
        "",
        "matching/operator_requirements",
    ),
    Mutant(
        "a streaming aggregate needs no grouping",
        "matching/operator_requirements.py",
        "local: Local = (Grouped(groups),) if ordered and groups else ()",
        "local: Local = ()",
        "matching/operator_requirements",
    ),
    Mutant(
        "Pmin ignored",
        "matching/match.py",
        "if isinstance(required, Clustered) and required.minimum:",
        "if False and isinstance(required, Clustered):",
        "matching/operator_requirements",
    ),
)


def survives(mutant: Mutant, copy: Path) -> str | None:
    """Why the fault survives; None if a test fails, as it should."""
    target = copy / PACKAGE / mutant.file
    text = target.read_text()
    if text.count(mutant.old) != 1:
        return f"its text occurs {text.count(mutant.old)} times in {mutant.file}"
    planted = text.replace(mutant.old, mutant.new)
    if "field(" in mutant.new and "from dataclasses import field\n" not in planted:
        planted = planted.replace("from unshuffle.", "from dataclasses import field\n\nfrom unshuffle.", 1)
    target.write_text(planted)
    try:
        return None if fails(mutant.test_files(), copy) or fails(["tests/properties"], copy) else "no test fails"
    finally:
        target.write_text(text)


def fails(tests: list[str], source: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1", "UNSHUFFLE_MUTANTS": "1"}
    for effort in ("UNSHUFFLE_SOAK", "UNSHUFFLE_QUICK"):
        environment.pop(effort, None)
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode not in (0, 1) or "error" in done.stdout.splitlines()[-1]:
        raise SystemExit(f"pytest did not run:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.returncode == 1


def main(names: list[str]) -> int:
    chosen = [m for m in MUTANTS if not names or any(part in m.name for part in names)]
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        shutil.copytree(ROOT / "src", copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        if not names and fails(["tests/properties"], copy):
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
