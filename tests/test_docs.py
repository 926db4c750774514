"""The documentation names files that exist: links, paths in backticks, and the pages of the site."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", ROOT / "SECURITY.md", *PAGES]

_LINK = re.compile(r"\]\((?P<path>[^()\s#:]*)(?:#(?P<anchor>[^()\s]*))?\)")
_CODE = re.compile(r"`([^`\n]+)`")
# A path contains a folder. A path that starts with a word in capitals (`FOLDER/`) is a placeholder.
_PATH = re.compile(r"(?![A-Z]+/)(?:[\w.-]+/)+(?:[\w-]+\.(?:py|md|tsv|toml|sh|json|png|scope))?")
_WRITTEN = {"benchmarks/results/calibration.json"}  # written by a program, not kept in the repository
_FILE = re.compile(r"[\w-]+\.(?:py|tsv)")


def _name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def _prose(page: Path) -> str:
    """The text of a page without its code blocks."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ +(.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", TEXTS, ids=_name)
def test_links_point_to_files(page: Path) -> None:
    for found in _LINK.finditer(_prose(page)):
        target = (page.parent / found["path"]).resolve() if found["path"] else page
        assert target.exists(), f"{_name(page)} links to {found['path']}"
        if found["anchor"] and target.suffix == ".md":
            assert found["anchor"] in _anchors(target), f"{_name(page)} links to {found[0]}"


@pytest.mark.parametrize("page", TEXTS, ids=_name)
def test_paths_exist(page: Path) -> None:
    missing = [path for path in _paths(_prose(page)) if path not in _WRITTEN and not _exists(path)]
    assert not missing, f"{_name(page)} names {missing}"


def _paths(text: str) -> Iterator[str]:
    for code in _CODE.findall(text):
        for word in code.split():
            if _PATH.fullmatch(word) or _FILE.fullmatch(word):
                yield word


def _exists(path: str) -> bool:
    if _FILE.fullmatch(path):  # a bare file name is in the folder that the sentence is about
        return any(any((ROOT / folder).rglob(path)) for folder in ("src", "tests", "tools", "benchmarks"))
    return any((root / path).exists() for root in (ROOT, ROOT / "src/unshuffle", ROOT / "src/unshuffle/explain"))


def test_the_site_has_every_page() -> None:
    listed = set(
        re.findall(r"^ +- (?:[^:\n]+: )?([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    )
    generated = {"contributing.md", "changelog.md", "security.md"}
    assert listed - generated == {page.relative_to(DOCS).as_posix() for page in PAGES}


def test_the_overview_lists_every_decision() -> None:
    overview = (DOCS / "decisions/README.md").read_text(encoding="utf-8")
    for page in sorted((DOCS / "decisions").glob("0*.md")):
        number, title = re.fullmatch(r"# (\d{3}): (.+)", page.read_text(encoding="utf-8").splitlines()[0]).groups()  # type: ignore[union-attr]
        assert f"| [{number}]({page.name}) | {title} |" in overview


def test_the_layers_are_those_of_the_linter() -> None:
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    layers = [re.sub(r"[()]", "", layer) for layer in linter["contracts"][0]["layers"]]
    assert "\n".join(layers) in (DOCS / "architecture.md").read_text(encoding="utf-8")


PAPERS = DOCS / "papers.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
# The figures, tables and algorithms of each paper, by the heading that it has on the page.
NUMBERED = {
    "ICDE 2010": {"Figure": range(1, 4), "Algorithm": range(1, 3), "Table": ("I", "II", "III", "IV", "V", "VI")},
    "SIGMOD 2012": {"Figure": range(1, 12), "Algorithm": (1,), "Table": (1,)},
    "PVLDB 2019": {"Figure": range(1, 19), "Algorithm": range(1, 6), "Table": (1, 2)},
    "SIGMOD 2011": {"Figure": (4, 5)},
}


def _rows_of_papers() -> Iterator[list[str]]:
    for line in PAPERS.read_text(encoding="utf-8").splitlines():
        if line.startswith("| ") and not line.startswith("| item |"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_every_row_on_the_papers_names_code_and_a_test() -> None:
    """Or it says why the item is not built."""
    for row in _rows_of_papers():
        item, code, tests, differs = row
        if code == "not built":
            assert tests == "–"
            assert len(differs.split()) > 9, item
        else:
            assert list(_paths(code)), item
            assert _TEST.search(tests), item


def test_tests_on_the_papers_exist() -> None:
    for file, test in _TEST.findall(PAPERS.read_text(encoding="utf-8")):
        text = (ROOT / file).read_text(encoding="utf-8")
        assert not test or f"def {test}(" in text, f"{file} has no {test}"


@pytest.mark.parametrize("paper", NUMBERED)
def test_no_figure_of_the_papers_is_left_out(paper: str) -> None:
    (section,) = [part for part in PAPERS.read_text(encoding="utf-8").split("\n## ") if f"({paper})" in part[:200]]
    for kind, numbers in NUMBERED[paper].items():
        for number in numbers:
            assert re.search(rf"{kind} {number}\b", section), f"{kind} {number}"
