"""Lists that must agree although they are in different files: each test names what was forgotten. See CONTRIBUTING.md."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

from unshuffle import explore, normalize
from unshuffle.explain.render import physical_operators, reasons_json
from unshuffle.explore.rules import EXPLORATION, OUTPUT_RULES
from unshuffle.language.bind.statements import formats
from unshuffle.normalize.rules import RULES
from unshuffle.properties.layouts.exchange import Topology
from unshuffle.spark import session
from unshuffle.spark.io import files

ROOT = Path(__file__).parent.parent


def _functions(package: Any, last_parameter: str, returned: str) -> Iterator[Callable[..., Any]]:
    """The public functions of a package whose last parameter and whose result have these types."""
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        module = importlib.import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            types = list(function.__annotations__.values())
            own = function.__module__ == module.__name__ and not name.startswith("_")
            if own and len(types) == 3 and types[1:] == [last_parameter, returned]:
                yield function


def test_every_normalization_rule_is_in_a_phase() -> None:
    rules = set(_functions(normalize, "Rewriting", "Plan | None"))
    assert len(rules) > 40
    assert not [rule.__name__ for rule in rules - RULES]


def test_every_exploration_rule_is_listed() -> None:
    rules = set(_functions(explore, "Memo", "Iterator[Plan]"))
    assert len(rules) > 15
    assert not [rule.__name__ for rule in rules - {*EXPLORATION, *OUTPUT_RULES}]


def test_spark_writes_every_format_of_the_language() -> None:
    assert set(formats.NAMES) == set(formats._OPTIONS) == set(files.NAMES)
    assert {name.lower() for name in formats.NAMES} == set(files._FORMATS)


def test_every_topology_has_a_name() -> None:
    assert set(get_args(Topology)) == set(physical_operators._TOPOLOGY) == set(reasons_json._TOPOLOGY)


def test_the_spark_versions_agree() -> None:
    oldest, newest = session.OLDEST, session.NEWEST
    requirement = f">={oldest[0]}.{oldest[1]},<{newest[0]}.{newest[1] + 1}"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    listed = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert [each for each in listed if each.startswith("pyspark")] == [
        f"pyspark{requirement}",
        f"pyspark[connect]{requirement}",
    ]
    older = [f"{oldest[0]}.{minor}" for minor in range(oldest[1], newest[1])]
    tested = re.search(r"^SPARK_VERSIONS := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert tested
    assert tested[1].split() == older
    assert f"Spark {oldest[0]}.{oldest[1]} to {newest[0]}.{newest[1]}" in (ROOT / "README.md").read_text()
