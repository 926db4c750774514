"""Text files of queries and their expected plans: how the files are parsed, and rewritten with the current plans.

    # A comment. Comments are kept.
    tables
    orders  rows=150000000 key(o_orderkey)
        o_orderkey  bigint
        o_custkey   bigint  distinct=9999600

    name of the case  expect=some_rule expect-not=other_rule rows.orders=1000
    select o_custkey, count(*) from orders
    group by o_custkey
    ----
    the plan, up to an empty line

    rules  up some_rule other_rule

    name of another case
    select * from orders
    ----
    the logical plan after these rules

A `tables` block ends at an empty line and applies to the cases below it (see `workloads/described.py`). A case is a line
with its name and its options, then its query up to `----`, then its expected plan. A plan that contains empty lines is
enclosed between `----` twice and `----` twice; no plan has such a line. Options:

    expect=R, expect-not=R     the rule R fired or did not fire
    disable=R                  the rule R is disabled
    rows.TABLE=N               the table has N rows in this case
    as=script                  the text is a script, not a query; files are under @data

Without a `rules` line, the expected plan is the physical plan. A `rules` line applies to the cases below it: their expected
plan is the logical plan after only these normalization rules (see `rewriter.py`).

Only expected plans are ever rewritten: `render(parse(text))` is the text itself, byte for byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff

FENCE = "----"
OPTIONS = ("expect", "expect-not", "disable", "as")


@dataclass(frozen=True, slots=True)
class Case:
    """A query and its expected plan."""

    name: str
    options: tuple[tuple[str, str], ...]
    query: str
    expected: str
    tables: str  # the `tables` block that applies
    rules: str  # the `rules` line that applies; empty for a physical plan
    before: str  # the lines of the file since the previous case, up to and including the `----`
    line: int  # where the case begins, counted from 1

    def option(self, name: str) -> tuple[str, ...]:
        return tuple(value for key, value in self.options if key == name)

    @property
    def rows(self) -> dict[str, float]:
        """The tables that have another size in this case."""
        return {key.removeprefix("rows."): float(value) for key, value in self.options if key.startswith("rows.")}


@dataclass(frozen=True, slots=True)
class CaseFile:
    cases: tuple[Case, ...]
    after: str  # the text after the last case

    def expecting(self, plans: Mapping[str, str]) -> CaseFile:
        """The same file with other expected plans, by name of the case."""
        return replace(self, cases=tuple(replace(c, expected=plans.get(c.name, c.expected)) for c in self.cases))


class Malformed(Exception):
    """A file that cannot be parsed: the line, and what is wrong with it."""


def parse(text: str) -> CaseFile:
    lines = [f"{line}\n" for line in text.splitlines()]
    cases: list[Case] = []
    tables = rules = ""
    at = start = 0
    while at < len(lines):
        header = lines[at].strip()
        if not header or header.startswith("#"):
            at += 1
        elif header == "tables":
            end = _first(lines, at, lambda line: not line.strip())
            tables = "".join(lines[at + 1 : end])
            at = end
        elif header.startswith("rules "):
            rules = header.removeprefix("rules ").strip()
            at += 1
        else:
            fence = _first(lines, at, lambda line: line.rstrip("\n") == FENCE)
            if fence == len(lines):
                raise Malformed(f"line {at + 1}: the case {header!r} has no {FENCE}")
            name, options = _header(header, at)
            if any(case.name == name for case in cases):
                raise Malformed(f"line {at + 1}: a second case {name!r}")
            expected, end = _expected(lines, fence + 1)
            query = "".join(lines[at + 1 : fence]).strip()
            before = "".join(lines[start : fence + 1])
            cases.append(Case(name, options, query, expected, tables, rules, before, at + 1))
            at = start = end
    return CaseFile(tuple(cases), "".join(lines[start:]))


def render(file: CaseFile) -> str:
    return "".join(case.before + _fenced(case.expected) for case in file.cases) + file.after


def difference(case: Case, plan: str) -> str | None:
    """A readable diff between the expected plan and the plan; None if they are the same."""
    if plan == case.expected:
        return None
    lines = unified_diff(case.expected.splitlines(), plan.splitlines(), "expected", "planned", lineterm="", n=1000)
    return "\n".join(list(lines)[3:])  # without the header, because the whole plan is shown


def _first(lines: Sequence[str], at: int, matches: Callable[[str], bool]) -> int:
    return next((i for i in range(at, len(lines)) if matches(lines[i])), len(lines))


def _header(header: str, at: int) -> tuple[str, tuple[tuple[str, str], ...]]:
    words = header.split()
    count = next((i for i, word in enumerate(words) if "=" in word), len(words))
    options = []
    for word in words[count:]:
        key, equals, value = word.partition("=")
        if not equals or not (key in OPTIONS or key.startswith("rows.")):
            raise Malformed(
                f"line {at + 1}: {word!r} is not an option; the options are {', '.join(OPTIONS)} and rows.TABLE"
            )
        options.append((key, value))
    if not count:
        raise Malformed(f"line {at + 1}: a case without a name")
    return " ".join(words[:count]), tuple(options)


def _expected(lines: Sequence[str], at: int) -> tuple[str, int]:
    """The expected plan that begins at line `at`, and the line after it."""

    def fences(i: int) -> bool:
        return [line.rstrip("\n") for line in lines[i : i + 2]] == [FENCE, FENCE]

    if at < len(lines) and lines[at].rstrip("\n") == FENCE:
        end = next((i for i in range(at + 1, len(lines)) if fences(i)), None)
        if end is None:
            raise Malformed(f"line {at + 1}: an expected plan that is opened with {FENCE} twice and not closed")
        return "".join(lines[at + 1 : end]).removesuffix("\n"), end + 2
    end = _first(lines, at, lambda line: not line.strip())
    return "".join(lines[at:end]).removesuffix("\n"), end


def _fenced(text: str) -> str:
    if text and any(not line.strip() for line in text.split("\n")):
        return f"{FENCE}\n{text}\n{FENCE}\n{FENCE}\n"
    return f"{text}\n" if text else ""
