"""Asks Spark about its built-in functions and writes `src/unshuffle/plan/functions/signatures.tsv`.

    python tools/spark_functions.py        # five to ten minutes; run it again for a new release of Spark

Nothing is executed, and nothing comes from the documentation: Spark's registry or analyzer shows every fact. The number of
arguments of a function is found by building it with 0, 1, 2, ... NULLs. The result type is found by analyzing calls with
arguments of many types: all combinations for up to two arguments, and for more the calls of Spark's own examples, with one
or two arguments at a time replaced. Then a rule is searched, among all that `plan.functions` can evaluate, that explains
every call that Spark accepted; if there is none, one rule for each family of argument types; and `?` if that fails too.
"""

from __future__ import annotations

import logging
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, product, takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j import java_gateway, protocol
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from unshuffle.catalog.type_names import from_spark_name  # noqa: E402
from unshuffle.catalog.types import spark_name  # noqa: E402
from unshuffle.plan.functions.signatures import evaluate, family, subject_of  # noqa: E402

TARGET = ROOT / "src/unshuffle/plan/functions/signatures.tsv"
HEADER = "name\tkind\targuments\tlambda\tdeterministic\tresult"

MOST_ARGUMENTS = 10
MOST_EXAMPLES = 3  # with the same number of arguments
MOST_ANALYSES = 150  # of one function, if single calls make whole batches fail

CORE = """void boolean tinyint int bigint float double decimal(10,2) decimal(20,0) string binary date timestamp
    timestamp_ntz array<int> array<string> map<string,int> struct<x:int,y:string>"""
MORE = """smallint; decimal(4,4); decimal(38,18); interval day to second; interval year to month; time(6); array<double>;
    array<decimal(10,2)>; array<array<bigint>>; array<struct<k:string,v:double>>; map<int,array<string>>;
    map<bigint,decimal(10,2)>; struct<z:array<double>>"""
CORE_TYPES = tuple(CORE.split())
ALL_TYPES = (*CORE_TYPES, *(name.strip() for name in MORE.split(";")))
MANY_TYPES = ("integer", "decimal", "interval", "array", "map", "struct")
LITERALS = ["0", "1", "3", "-2", "0.5D", "0.25", "true", "'a'", "'2'", "'DAY'", "'yyyy-MM-dd'", "array(0.2D, 0.5D)"]

# The result may be that of an operator. For other functions that would be a coincidence.
OPERATORS = ("+", "-", "*", "/", "%", "div")
ARITHMETIC = ("div", "mod", "nanvl", "pmod", "try_add", "try_divide", "try_mod", "try_multiply", "try_subtract")

# Calls that Spark's grammar parses itself, with a unit as the first argument. The registry has some of them under the same
# name, with two arguments.
WITH_UNIT = ("date_add", "date_diff", "dateadd", "datediff", "timestampadd", "timestampdiff")

# No rule is searched for these. Either the value of an argument decides, not its type (a format, a schema, a path), and
# examples do not always show it. Or an argument's type is wrapped in a struct, which no rule can express.
WITHOUT_RULE = """approx_top_k approx_top_k_accumulate date_part datepart decode extract from_avro from_csv from_json
    from_protobuf from_xml histogram_numeric map_entries named_struct struct to_number try_to_number try_variant_get
    variant_get when"""
BY_DIGITS = ("bround", "ceil", "ceiling", "floor", "round")  # decimals, with the number of digits as second argument

# Wrong only in a whole query, or not a call at all.
COUNTS = {"cast": [2], "python_worker_logs": [0], "try_parse_url": [2, 3]}
COUNTS |= {name: list(range(2, MOST_ARGUMENTS + 1)) for name in ("try_reflect", "when")}

# Spark's own examples omit arguments of these. The names stand for any column.
EXAMPLES = {
    "lag": ["> SELECT lag(x, 1)", "> SELECT lag(x, 1, y)"],
    "lead": ["> SELECT lead(x, 1)", "> SELECT lead(x, 1, y)"],
}

KINDS = {"AggregateFunction": "aggregate", "RuntimeReplaceableAggregate": "aggregate", "Generator": "table"}
GROUPS = {"agg_funcs": "aggregate", "window_funcs": "window", "generator_funcs": "table", "table_funcs": "table"}


@dataclass(frozen=True)
class Value:
    """One argument of a call: its text and its type."""

    text: str
    type: pa.DataType | None


Call = tuple[Value, ...]
Probe = tuple[tuple[pa.DataType | None, ...], pa.DataType | None]


@dataclass
class Found:
    kind: str = "scalar"
    counts: list[int] = field(default_factory=list)
    lambdas: tuple[int, ...] = ()
    deterministic: bool = True
    probes: list[Probe] = field(default_factory=list)


class Analyzer:
    """Spark's registry and analyzer, asked directly."""

    def __init__(self, spark: SparkSession) -> None:
        # pyspark's handler fetches a stack trace for every error, and half of the answers are errors.
        java_gateway.get_return_value = protocol.get_return_value
        jvm = spark._jvm
        self._state = spark._jsparkSession.sessionState()
        self._seq = jvm.org.apache.spark.api.python.PythonUtils.toSeq
        self._list = jvm.java.util.ArrayList
        registries = jvm.org.apache.spark.sql.catalyst.analysis
        self.scalar = getattr(getattr(registries, "FunctionRegistry$"), "MODULE$").builtin()
        self.table = getattr(getattr(registries, "TableFunctionRegistry$"), "MODULE$").builtin()
        self.columns = {name: Value(f"c{n}", from_spark_name(name)) for n, name in enumerate(ALL_TYPES)}
        columns = ", ".join(f"CAST(NULL AS {name}) AS {value.text}" for name, value in self.columns.items())
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW probe AS SELECT {columns}")

    def kind(self, built: Any) -> str | None:
        """The kind of an expression by its class. For some functions the documentation groups by topic instead."""
        if built is True:
            return None
        names = {ancestor.getSimpleName() for ancestor in ancestors(built.getClass())}
        return next((kind for name, kind in KINDS.items() if name in names), None)

    def nulls(self, n: int) -> Any:
        nulls = self._list()
        for _ in range(n):
            nulls.add(self._state.sqlParser().parseExpression("NULL"))
        return self._seq(nulls)

    def types(self, expressions: list[str], budget: list[int]) -> list[str | None]:
        """The type of each expression; None if it does not resolve."""
        if not expressions or budget[0] <= 0:
            return [None] * len(expressions)
        budget[0] -= 1
        try:
            return self._types(expressions)
        except Py4JError:
            if len(expressions) == 1:
                return [None]
            middle = len(expressions) // 2
            return self.types(expressions[:middle], budget) + self.types(expressions[middle:], budget)

    def _types(self, expressions: list[str]) -> list[str | None]:
        text = ", ".join(f"{expression} AS r{n}" for n, expression in enumerate(expressions))
        # Without the final check, unresolved expressions stay in place and the rest of the batch is not lost.
        plan = self._state.analyzer().execute(self._state.sqlParser().parsePlan(f"SELECT {text} FROM probe"))
        found = [e.dataType().catalogString() if e.resolved() else None for e in each(plan.expressions())]
        if len(found) != len(expressions):
            raise Py4JError("the plan was rewritten")
        return found

    def example_calls(self, name: str, info: Any) -> Iterator[list[Any]]:
        """The argument lists of the calls of this function in its own examples."""
        for line in [*info.getExamples().splitlines(), *EXAMPLES.get(name, ())]:
            statement = line.strip().removeprefix("> ").removesuffix(";")
            if line.strip().startswith("> SELECT"):
                try:
                    plan = self._state.sqlParser().parsePlan(statement)
                except Py4JError:
                    continue
                for expression in each(plan.expressions()):
                    yield from calls_of(name, expression, depth=4)


def ancestors(java_class: Any) -> Iterator[Any]:
    while java_class is not None:
        yield java_class
        for interface in java_class.getInterfaces():
            yield from ancestors(interface)
        java_class = java_class.getSuperclass()


def each(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def calls_of(name: str, expression: Any, depth: int) -> Iterator[list[Any]]:
    is_call = expression.getClass().getSimpleName() == "UnresolvedFunction"
    if is_call and ".".join(each(expression.nameParts())).lower() == name:
        yield list(each(expression.arguments()))
    if depth:
        for child in each(expression.children()):
            yield from calls_of(name, child, depth - 1)


# --------------------------------------------------------------------------------------------------------------- counts


def probe_count(registry: Any, identifier: Any, nulls: Any) -> Any:
    """The function built with these arguments; None if there are too few or too many; True if something else fails."""
    try:
        built = registry.lookupFunction(identifier, nulls)
    except Py4JJavaError as error:
        few = ("WRONG_NUM_ARGS", "REQUIRED_PARAMETER_NOT_FOUND", "FAILED_FUNCTION_CALL", "INTERNAL_ERROR")
        return None if condition(error).startswith(few) else True
    try:
        built.checkInputDataTypes()
    except Py4JJavaError as error:
        if condition(error).startswith("WRONG_NUM_ARGS"):
            return None
    except Py4JError:
        pass  # a table function builds a plan without such a check
    return built


def condition(error: Py4JJavaError) -> str:
    try:
        return error.java_exception.getCondition() or ""
    except Py4JError:
        return ""  # not one of Spark's own errors


def arity(counts: list[int]) -> str:
    """`1,2`, or `2+` and `2+2` if the largest counts tried were still accepted."""
    for step, mark in ((1, "+"), (2, "+2")):
        run = list(takewhile(lambda n: n in counts, range(MOST_ARGUMENTS, -1, -step)))
        if len(run) >= 3:
            return ",".join(map(str, [*(n for n in counts if n < run[-1]), run[-1]])) + mark
    return ",".join(map(str, counts))


# ---------------------------------------------------------------------------------------------------------------- calls


def calls(analyzer: Analyzer, name: str, found: Found, seeds: list[list[Any]], literals: list[Value]) -> Iterator[Call]:
    core = [analyzer.columns[type] for type in CORE_TYPES]
    pool = [*analyzer.columns.values(), *literals]
    if 0 in found.counts:
        yield ()
    if 1 in found.counts and 0 not in found.lambdas:
        yield from ((value,) for value in pool)
    for number, seed in enumerate(seeds):
        yield from variants(analyzer, seed, core, pool, pairs=all(len(other) != len(seed) for other in seeds[:number]))
    if found.lambdas:
        return
    if 2 in found.counts:
        yield from product(core, literals)
        yield from product(literals, core)
        yield from product(core, core)
    shuffled = random.Random(name)
    for n in (n for n in found.counts if 3 <= n <= 7):
        yield from ((value,) * n for value in pool)
        if n == 3:
            few = [value for value in core if "<" not in spark_name(value.type)]
            yield from shuffled.sample(list(product(few, few, few)), 250)


def variants(analyzer: Analyzer, seed: list[Any], core: list[Value], pool: list[Value], pairs: bool) -> Iterator[Call]:
    """The example itself, and the example with one argument, or also any two, replaced."""
    places = [place(analyzer, argument) for argument in seed]
    base = [known if known else wrap(pool[3]) for known, wrap in places]
    yield tuple(base)
    for position, (_, wrap) in enumerate(places):
        yield from (replaced(base, {position: wrap(value)}) for value in pool)
    if pairs and 2 <= len(places) <= 4:
        for (i, (_, wrap_i)), (j, (_, wrap_j)) in combinations(enumerate(places), 2):
            some = [*core[1::2], analyzer.columns["array<double>"]]
            yield from (replaced(base, {i: wrap_i(a), j: wrap_j(b)}) for a, b in product(some, some))
            yield from (replaced(base, {i: wrap_i(a), j: wrap_j(a)}) for a in pool)


def replaced(base: list[Value], by: dict[int, Value]) -> Call:
    return tuple(by.get(position, value) for position, value in enumerate(base))


def place(analyzer: Analyzer, argument: Any) -> tuple[Value | None, Callable[[Value], Value]]:
    """The argument at a place of an example, if it can be used alone, and how another value is written there."""
    if argument.getClass().getSimpleName() == "LambdaFunction":
        names = ", ".join(f"x{n}" for n in range(argument.arguments().size()))
        names = f"({names})" if "," in names else names
        return None, lambda value: Value(f"{names} -> {value.text}", value.type)
    text = argument.sql()
    name = analyzer.types([text], [1])[0]
    return (Value(text, arrow(name)) if name else None), lambda value: value


def arrow(name: str | None) -> pa.DataType | None:
    try:
        return from_spark_name(name) if name else None
    except ValueError:
        return None


# ---------------------------------------------------------------------------------------------------------------- rules


def rule(name: str, found: Found) -> str:
    """The simplest rule that explains every accepted call."""
    probes = list(dict.fromkeys(found.probes))
    if not probes:
        return "?"
    candidates = [term for term in terms(probes) if name in ARITHMETIC or term not in OPERATORS]
    if whole := next((term for term in candidates if explains(term, probes)), None):
        return unproven(found) + whole
    longest = max(len(arguments) for arguments, _ in probes)
    subjects = ["n", *(f"arg{n}" for n in range(min(longest, 4)))]
    splits = [guarded(candidates, probes, (subject,)) for subject in subjects]
    splits += [guarded(candidates, probes, pair) for pair in combinations(subjects, 2)]
    best = max(splits, key=lambda split: (split[1] / len(probes) - 0.03 * split[0].count("|"), -len(split[0])))[0]
    return best if best == "?" else unproven(found) + best


def unproven(found: Found) -> str:
    """A guard for argument counts with which no call was accepted: nothing is known about them."""
    seen = {len(arguments) for arguments, _ in found.probes}
    unseen = [str(n) for n in found.counts if n not in seen and n <= 7]
    return f"n={','.join(unseen)}: ? | " if unseen else ""


def terms(probes: list[Probe]) -> Iterator[str]:
    """Every rule worth trying, the simplest first."""
    # The type of NULL shows nothing about the type that other arguments would have given.
    telling = [result for arguments, result in probes if not (result == pa.null() and pa.null() in arguments)]
    # A decimal that is the same for all calls comes from a value, not from a type.
    fixed = {spark_name(result) for result in telling if result is not None}
    yield from sorted(name for name in fixed if "decimal" not in name)
    longest = min(max(len(arguments) for arguments, _ in probes), 4)
    arguments = [f"arg{n}" for n in range(longest)]
    commons = [
        "common",
        "common(1+)",
        "common(arg0,arg1)",
        "common(arg1,arg2)",
        "common(arg0,arg2)",
        "common(2+)",
        "common(arg0,int)",
    ]
    parts = [f"{part}({argument})" for argument in arguments for part in ("element", "key", "value")]
    yield from arguments
    yield from ("sum", "avg", "round", "ceil", *OPERATORS)
    yield from commons
    yield from parts
    inner = [*arguments, *commons, *parts, "element(element(arg0))"]
    yield from (f"array<{term}>" for term in inner)
    inserted = [f"array<common(element(arg0),{argument})>" for argument in arguments]
    yield from (*inserted, "map<common(0+2),common(1+2)>")
    simple = [*arguments, *parts, *(f"element({argument})" for argument in arguments)]
    yield from (f"map<{key},{value}>" for key, value in product(simple, simple))


def explains(term: str, probes: Iterable[Probe]) -> bool:
    try:
        return all(result is not None and evaluate(term, arguments) == result for arguments, result in probes)
    except ValueError:
        return False


def guarded(candidates: list[str], probes: list[Probe], subjects: tuple[str, ...]) -> tuple[str, int]:
    """A rule for each combination of the subjects' values, and how many calls are explained.

    A subject is the number of arguments or the type of one of them.
    """
    groups: dict[tuple[str, ...], list[Probe]] = defaultdict(list)
    for probe in probes:
        groups[tuple(subject_of(subject, probe[0]) for subject in subjects)].append(probe)
    fitting = {
        key: [term for term in candidates if explains(term, group) and telling(term, group, subjects)]
        for key, group in groups.items()
    }
    chosen = {key: "?" for key, terms in fitting.items() if not terms}
    while left := [key for key in groups if key not in chosen]:
        votes = Counter(term for key in left for term in fitting[key])
        best = max(votes, key=lambda term: (votes[term], -candidates.index(term)))
        chosen |= {key: best for key in left if best in fitting[key]}
    default = Counter(chosen.values()).most_common(1)[0][0]
    guards = [
        " ".join(f"{subject}={','.join(values)}" for subject, values in zip(subjects, product_of, strict=True))
        + f": {term}"
        for term in sorted({*chosen.values()} - {default})
        for product_of in products(sorted(key for key, its in chosen.items() if its == term))
    ]
    explained = sum(len(group) for key, group in groups.items() if chosen[key] != "?")
    return " | ".join([*guards, default]), explained


def telling(term: str, group: list[Probe], subjects: tuple[str, ...]) -> bool:
    """A constant result type shows nothing if only one type of a large family was accepted."""
    if any(word in term for word in ("arg", "common", "sum", "avg", "round", "ceil", "div")) or term in OPERATORS:
        return True
    positions = [int(subject.removeprefix("arg")) for subject in subjects if subject != "n"]
    seen = [{arguments[n] for arguments, _ in group if n < len(arguments)} for n in positions]
    return all(len(types) != 1 or family(*types) not in MANY_TYPES for types in seen)


def products(keys: list[tuple[str, ...]]) -> list[tuple[tuple[str, ...], ...]]:
    """The keys as few products of sets: (a,x) (a,y) (b,x) (b,y) is ((a,b), (x,y))."""
    if len(keys[0]) == 1:
        return [(tuple(key[0] for key in keys),)]
    seconds: dict[str, list[str]] = defaultdict(list)
    for first, second in keys:
        seconds[first].append(second)
    firsts: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for first, second in seconds.items():
        firsts[tuple(second)].append(first)
    return [(tuple(first), second) for second, first in firsts.items()]


# ----------------------------------------------------------------------------------------------------------------- main


def investigate(analyzer: Analyzer, registry: Any, identifier: Any, nulls: list[Any], literals: list[Value]) -> Found:
    name, info = identifier.funcName(), registry.lookupFunction(identifier).get()
    found = Found(GROUPS.get(info.getGroup(), "scalar"))
    built = {
        n: expression for n in range(MOST_ARGUMENTS + 1) if (expression := probe_count(registry, identifier, nulls[n]))
    }
    found.counts = COUNTS.get(name) or list(built)
    if registry is analyzer.table:
        found.kind = "table"
        return found
    seeds = list(analyzer.example_calls(name, info))
    seeds = [
        seed for n, seed in enumerate(seeds) if sum(len(other) == len(seed) for other in seeds[:n]) < MOST_EXAMPLES
    ]
    found.lambdas = tuple(
        sorted({n for seed in seeds for n, a in enumerate(seed) if a.getClass().getSimpleName() == "LambdaFunction"})
    )
    if found.kind == "scalar":
        found.kind = next((kind for kind in map(analyzer.kind, built.values()) if kind), "scalar")
    reported = [
        flag
        for expression in built.values()
        if expression is not True and (flag := deterministic(expression)) is not None
    ]
    found.deterministic = all(reported) and "non-deterministic" not in info.getNote()
    if found.kind != "table" and name not in WITHOUT_RULE.split():
        probe_types(analyzer, name, found, seeds, literals)
    return found


def deterministic(expression: Any) -> bool | None:
    try:
        return bool(expression.deterministic())
    except Py4JError:
        return None


def probe_types(analyzer: Analyzer, name: str, found: Found, seeds: list[list[Any]], literals: list[Value]) -> None:
    asked = list(dict.fromkeys(calls(analyzer, name, found, seeds, literals)))
    over = " OVER (ORDER BY c3)" if found.kind == "window" else ""
    texts = [f"`{name}`({', '.join(value.text for value in call)}){over}" for call in asked]
    for n in found.counts:
        some = [(call, text) for call, text in zip(asked, texts, strict=True) if len(call) == n]
        budget = [MOST_ANALYSES]
        for batch in (some[start : start + 400] for start in range(0, len(some), 400)):
            for (call, _), type in zip(batch, analyzer.types([text for _, text in batch], budget), strict=True):
                if type is not None:
                    by_digits = name in BY_DIGITS and n == 2 and type.startswith("decimal")
                    found.probes.append((tuple(value.type for value in call), None if by_digits else arrow(type)))


def with_unit(analyzer: Analyzer, name: str, found: Found) -> None:
    """Adds what the grammar parses under this name: `dateadd(MONTH, n, date)`."""
    found.counts.append(3)
    pool = list(analyzer.columns.values())
    number = analyzer.columns["int"]
    for unit in ("MONTH", "HOUR"):
        pairs = [*((number, value) for value in pool), *((value, value) for value in pool)]
        found_types = analyzer.types([f"{name}({unit}, {a.text}, {b.text})" for a, b in pairs], [MOST_ANALYSES])
        for (a, b), type in zip(pairs, found_types, strict=True):
            if type is not None:
                found.probes.append(((None, a.type, b.type), arrow(type)))


def lines(spark: SparkSession, only: list[str]) -> Iterator[str]:
    analyzer = Analyzer(spark)
    nulls = [analyzer.nulls(n) for n in range(MOST_ARGUMENTS + 1)]
    literals = [Value(text, arrow(analyzer.types([text], [1])[0])) for text in LITERALS]
    functions: dict[str, Found] = {}
    for registry in (analyzer.table, analyzer.scalar):
        for identifier in each(registry.listFunction()):
            name = identifier.funcName()
            if name.isidentifier() and (not only or name in only):
                found = investigate(analyzer, registry, identifier, nulls, literals)
                functions[name] = found
    for name in WITH_UNIT:
        if not only or name in only:
            with_unit(analyzer, name, functions.setdefault(name, Found()))
    for name, found in sorted(functions.items()):
        counts = arity(found.counts)
        lambdas = ",".join(map(str, found.lambdas)) or "-"
        yield "\t".join([name, found.kind, counts, lambdas, "yes" if found.deterministic else "no", rule(name, found)])


def main() -> None:
    logging.disable(logging.CRITICAL)  # pyspark logs every rejected probe
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.timeType.enabled", "true")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    start = time.monotonic()
    written = [HEADER, *lines(spark, only=sys.argv[1:])]
    if sys.argv[1:]:
        print("\n".join(written))
    else:
        TARGET.write_text("\n".join(written) + "\n", encoding="utf-8")
        print(f"{len(written) - 1} functions of Spark {spark.version} in {time.monotonic() - start:.0f} s: {TARGET}")
    spark.stop()


if __name__ == "__main__":
    main()
