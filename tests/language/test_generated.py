"""Random scripts end in a plan or in a user error, never in another exception.

One generator follows the language's grammar, so most of its scripts bind or fail for a realistic reason. The other one
shuffles the words, so most of its scripts do not parse.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.effort import SOAK, examples
from unshuffle.errors import UserError
from unshuffle.explain.render.dot import dot
from unshuffle.explain.render.html import page
from unshuffle.explain.render.json import logical_explanation
from unshuffle.explain.render.logical import tree
from unshuffle.explain.render.text import text
from unshuffle.plan.logical import Script

Bind = Callable[..., Script]

# Mostly existing names, so that scripts get far before they fail: each entry is drawn as often as it is listed.
tables = st.sampled_from(["orders"] * 12 + ["wide", "customers", "a", "nowhere"])
columns = st.sampled_from(
    ["o_id", "customer", "amount", "placed", "note", "@n"] * 8
    + ["c_id", "flag", "tags", "place.city", "t.o_id", "@nope"]
)
literals = st.sampled_from(["1", "2.5", "1e3", "'x'", '"y"', "null", "true", "date '2024-01-01'", "interval '1' day", "12345678901234567890", "x'1F'", "''", "-1"])  # fmt: skip
functions = st.sampled_from(["upper", "sum", "count", "coalesce", "max", "avg", "concat"] * 4 + ["rand", "size", "explode", "no_such", "if", "row_number"])  # fmt: skip
operators = st.sampled_from(["+", "-", "*", "/", "%", "==", "=", "<>", "<", ">=", "&&", "||", "and", "or", "<=>", "&", "|", "^", "like", "div"])  # fmt: skip


def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    joined = st.one_of(inner, inner, st.lists(inner, max_size=3).map(", ".join))
    return st.one_of(
        st.tuples(inner, operators, inner).map(" ".join),
        st.tuples(functions, joined).map(lambda p: f"{p[0]}({p[1]})"),
        inner.map(lambda e: f"({e})"),
        inner.map(lambda e: f"!{e}"),
        inner.map(lambda e: f"-({e})"),
        st.tuples(inner, inner, inner).map(lambda p: f"case when {p[0]} then {p[1]} else {p[2]} end"),
        st.tuples(inner, inner).map(lambda p: f"{p[0]} in ({p[1]}, 1)"),
        st.tuples(inner, inner, inner).map(lambda p: f"{p[0]} between {p[1]} and {p[2]}"),
        inner.map(lambda e: f"cast({e} as string)"),
        inner.map(lambda e: f"{e} is not null"),
        inner.map(lambda e: f"sum({e}) over (partition by {e} order by {e})"),
        st.tuples(tables, inner).map(lambda p: f"(select max({p[1]}) from {p[0]})"),
        st.tuples(tables, inner).map(lambda p: f"exists (select 1 from {p[0]} where {p[1]})"),
        st.tuples(inner, tables).map(lambda p: f"{p[0]} in (select o_id from {p[1]})"),
        inner.map(lambda e: f"sum({e}) filter (where {e} > 1)"),
    )


expressions = st.recursive(st.one_of(columns, literals), grown, max_leaves=6)
items = st.one_of(expressions, st.tuples(expressions, st.sampled_from(["x", "y", "`a b`"])).map(" as ".join), st.sampled_from(["*", "t.*", "count(*)"]))  # fmt: skip
sources = st.one_of(
    tables,
    tables,
    tables,
    tables,
    tables,
    tables,
    tables.map(lambda t: f"{t} as t"),
    st.tuples(tables, st.sampled_from(["join", "left join", "full join", "left semi join", "left anti join", "cross join", ","]), tables).map(lambda p: f"{p[0]} t {p[1]} {p[2]} u"),
    st.tuples(tables, st.sampled_from(["join", "right join"]), tables, expressions).map(lambda p: f"{p[0]} t {p[1]} {p[2]} u on {p[3]}"),
    tables.map(lambda t: f"{t} join {t} u using (o_id)"),
    tables.map(lambda t: f"(select * from {t}) t"),
    st.just("values (1, 'a'), (2, 'b') as t(o_id, note)"),
    tables.map(lambda t: f"{t} lateral view explode(tags) v as w"),
    st.just('SSTREAM "x.ss"'),
)  # fmt: skip


@st.composite
def selects(draw: st.DrawFn) -> str:
    parts = [
        "select",
        draw(st.sampled_from(["", "distinct "])) + ", ".join(draw(st.lists(items, min_size=1, max_size=3))),
    ]
    parts.append(f"from {draw(sources)}")
    if draw(st.booleans()):
        parts.append(f"where {draw(expressions)} > {draw(expressions)}")
    for word in ("group by", "having", "order by"):
        if draw(st.integers(0, 4)) == 0:
            parts.append(f"{word} {draw(expressions)}")
    if draw(st.booleans()):
        parts.append(f"limit {draw(st.sampled_from(['1', '@n', '7', '-1']))}")
    return " ".join(parts)


queries = st.one_of(
    selects(),
    st.tuples(selects(), st.sampled_from(["union", "union all", "except", "intersect"]), selects()).map(" ".join),
    selects().map(lambda q: f"with a as ({q}) select * from a t join a u on true"),
)
bodies = st.one_of(
    queries,
    queries,
    queries,
    queries,
    tables.map(lambda t: f"PROCESS {t} PRODUCE o_id:long, w:string READONLY o_id USING m.P(n = @n)"),
    st.tuples(tables, st.sampled_from(["note", "customer", "missing"])).map(lambda p: f"REDUCE {p[0]} ON {p[1]} PRESORT o_id DESC PRODUCE {p[1]}, n:int USING m.R()"),
    st.tuples(tables, tables).map(lambda p: f"COMBINE {p[0]} AS t WITH {p[1]} AS u ON t.o_id == u.o_id PRODUCE o_id:long USING m.C()"),
    st.just('EXTRACT line:string FROM "nowhere" USING Text() KEY (line) DEPENDS (line -> line)'),
)  # fmt: skip


@st.composite
def scripts(draw: st.DrawFn) -> str:
    lines = ["#DECLARE n int = 3;"]
    for name in ["a", "b", "b" if draw(st.integers(0, 9)) == 0 else "c"][: draw(st.integers(1, 3))]:
        word = draw(st.sampled_from(["{} = {};", "VIEW {} AS {};", "{} = {} // note\n;"]))
        lines.append(word.format(name, draw(bodies)))
    if draw(st.booleans()):
        lines.append("#IF @n > 2\n#ELSE\n#ENDIF")
    lines.append(draw(st.sampled_from(['OUTPUT a TO "out";', 'OUTPUT a TO "out.parquet";', 'OUTPUT a TO "x"; OUTPUT a TO "y";', 'OUTPUT b TO "x.csv" USING Csv(header = true) OVERWRITE;', 'OUTPUT a TO SSTREAM "s.ss" HASH CLUSTERED BY o_id INTO 4;'])))  # fmt: skip
    return "\n".join(lines)


def bind_and_show(bound: Bind, script: str) -> None:
    # NotImplementedError: a query that only Spark understands, without Spark.
    with contextlib.suppress(UserError, NotImplementedError):
        plan = bound(script, is_script=True)
        nodes = tree(plan)
        assert text(nodes)
        assert dot(nodes)
        assert page("x", nodes)
        assert logical_explanation(plan)


def few(normal: int) -> settings:
    """The same scripts in every run; in a soak many more, and new ones."""
    return settings(
        max_examples=examples(normal, quick=20),
        derandomize=not SOAK,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@given(scripts())
@few(100)
def test_scripts_of_the_grammar(bound: Bind, script: str) -> None:
    bind_and_show(bound, script)


@given(scripts(), st.randoms(use_true_random=False))
@few(50)
def test_scripts_with_a_word_lost_doubled_or_moved(bound: Bind, script: str, random: object) -> None:
    words = script.split(" ")
    for _ in range(3):
        i, j = random.randrange(len(words)), random.randrange(len(words))  # type: ignore[attr-defined]
        match random.randrange(3):  # type: ignore[attr-defined]
            case 0:
                words[i], words[j] = words[j], words[i]
            case 1:
                words.insert(i, words[j])
            case 2 if len(words) > 1:
                del words[i]
    bind_and_show(bound, " ".join(words))


@given(st.text(max_size=60))
@few(50)
def test_any_text(bound: Bind, script: str) -> None:
    bind_and_show(bound, script)
