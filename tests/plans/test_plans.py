"""The cases in the `*.txt` files beside this file have the plans that the files expect.

A plan that changed is shown as a diff. `make plans` writes the new plans into the files, to be reviewed as a diff. What a
case expects of rules is not rewritten.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plans.cases import Case, difference, parse, render
from tests.plans.planner import Planner

FILES = sorted(Path(__file__).parent.glob("*.txt"))
CASES = [(file, case) for file in FILES for case in parse(file.read_text(encoding="utf-8")).cases]


@pytest.fixture(scope="module")
def planner(tmp_path_factory: pytest.TempPathFactory) -> Planner:
    return Planner(tmp_path_factory.mktemp("described"))


@pytest.fixture(scope="module")
def rewriting(pytestconfig: pytest.Config) -> Iterator[dict[Path, dict[str, str]] | None]:
    """Collects the plans to write into their files at the end; None without `--rewrite-plans`."""
    if not pytestconfig.getoption("--rewrite-plans"):
        yield None
        return
    plans: dict[Path, dict[str, str]] = {}
    yield plans
    for path, by_name in plans.items():
        text = path.read_text(encoding="utf-8")
        rewritten = render(parse(text).expecting(by_name))
        if rewritten != text:
            path.write_text(rewritten, encoding="utf-8")


@pytest.mark.parametrize(("path", "case"), CASES, ids=[f"{path.stem}: {case.name}" for path, case in CASES])
def test_plan(path: Path, case: Case, planner: Planner, rewriting: dict[Path, dict[str, str]] | None) -> None:
    planned = planner.plan(case)
    for rule in case.option("expect"):
        assert rule in planned.rules, f"the rule {rule} did not fire"
    for rule in case.option("expect-not"):
        assert rule not in planned.rules, f"the rule {rule} fired"
    if rewriting is not None:
        rewriting.setdefault(path, {})[case.name] = planned.text
    elif found := difference(case, planned.text):
        pytest.fail(
            f"{path.name}:{case.line}: {case.name}\n{found}\n(`make plans` accepts the new plan)", pytrace=False
        )
