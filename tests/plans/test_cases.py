"""Files of expected plans are parsed, compared and rewritten as `cases.py` describes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.plans.cases import Malformed, difference, parse, render

FILE = """\
# The subject of the file.

tables
orders  rows=10 key(o_id)
    o_id  bigint

plain
select 1
----
Values

# A case with options.
with options  expect=a expect=b expect-not=c rows.orders=1e6
select o_id

from orders
----
----
Output

Output
----
----

tables
other  rows=1
    a  int

rules  up some_rule

nothing expected yet
select 2
----

tpch 1
----
Scan
└─ more
# Part of the plan, because no empty line precedes it.

# A comment after the last case.
"""


def test_parse() -> None:
    first, second, third, fourth = parse(FILE).cases
    assert (first.name, first.query, first.expected) == ("plain", "select 1", "Values")
    assert first.tables == "orders  rows=10 key(o_id)\n    o_id  bigint\n"
    assert second.name == "with options"
    assert second.option("expect") == ("a", "b")
    assert second.option("expect-not") == ("c",)
    assert second.rows == {"orders": 1e6}
    assert second.query == "select o_id\n\nfrom orders"
    assert second.expected == "Output\n\nOutput"
    assert second.tables == first.tables
    assert (third.expected, third.tables) == ("", "other  rows=1\n    a  int\n")
    assert [case.rules for case in (first, second, third, fourth)] == ["", "", "up some_rule", "up some_rule"]
    assert (fourth.name, fourth.query) == ("tpch 1", "")
    assert fourth.expected.startswith("Scan\n└─ more\n# Part of the plan")
    assert FILE.splitlines()[fourth.line - 1] == "tpch 1"


def test_only_expected_plans_are_rewritten() -> None:
    file = parse(FILE)
    assert render(file) == FILE
    rewritten = render(file.expecting({"plain": "a\n\nb", "nothing expected yet": "c"}))
    assert rewritten == FILE.replace("Values\n", "----\na\n\nb\n----\n----\n").replace(
        "select 2\n----\n", "select 2\n----\nc\n"
    )


LINES = st.lists(st.sampled_from(["plan", "   └─ more", "", "  ", "# no comment", "tables"]), max_size=5)


@given(st.lists(LINES, min_size=1, max_size=4))
def test_rendered_plans_are_parsed_again(plans: list[list[str]]) -> None:
    texts = {f"case {i}": "\n".join(lines).strip("\n") for i, lines in enumerate(plans)}
    file = parse("\n".join(f"{name}\nselect 1\n----\n" for name in texts)).expecting(texts)
    assert [case.expected for case in parse(render(file)).cases] == list(texts.values())


def test_a_difference_shows_the_whole_plan() -> None:
    case = parse("a\n----\nSort\n└─ Scan\n").cases[0]
    assert difference(case, "Sort\n└─ Scan") is None
    assert difference(case, "Exchange\n└─ Scan") == "-Sort\n+Exchange\n └─ Scan"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a\nselect 1\n", "line 1: the case 'a' has no ----"),
        ("a\n----\n\na\n----\n", "line 4: a second case 'a'"),
        ("expect=b\n----\n", "line 1: a case without a name"),
        (
            "a exect=b\n----\n",
            "line 1: 'exect=b' is not an option; the options are expect, expect-not, disable, as and rows.TABLE",
        ),
        ("a expect=b c\n----\n", "line 1: 'c' is not an option"),
        ("a\n----\n----\nplan\n", "line 3: an expected plan that is opened with ---- twice and not closed"),
    ],
)
def test_malformed_files(text: str, message: str) -> None:
    with pytest.raises(Malformed) as problem:
        parse(text)
    assert str(problem.value).startswith(message)
