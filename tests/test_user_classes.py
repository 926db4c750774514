"""Loading user classes: the errors, and their messages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from unshuffle import user_classes
from unshuffle.errors import Source, UserCodeProblem
from unshuffle.operators import Processor, Reducer
from unshuffle.plan.expressions import Value
from unshuffle.plan.logical import UserClass
from unshuffle.user_classes import load

SCRIPT = Source("s.scope", "out = PROCESS lines PRODUCE gram:string USING mine.Grams(n = 2);")

GRAMS = """
from unshuffle.operators import Processor, Reducer

class Grams(Processor):
    def __init__(self, n):
        if n < 1:
            raise ValueError("n is too small")
    def process_row(self, row):
        yield row

class Idle(Processor):
    pass

class Folder(Reducer):
    def reduce(self, group):
        return group

count = 3
"""


def using(folder: Path, name: str, module: str = "mine", **keywords: Value) -> UserClass:
    return UserClass(module, name, (), tuple(keywords.items()), (str(folder),), SCRIPT.span(46, 63))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(GRAMS)
    return tmp_path


def test_loading_a_class_does_not_change_the_interpreter(folder: Path) -> None:
    path, modules = list(sys.path), set(sys.modules)
    assert load(using(folder, "Grams", n=2), Processor).__name__ == "Grams"
    assert sys.path == path
    assert set(sys.modules) == modules
    assert not (folder / "__pycache__").exists()


@pytest.mark.parametrize(
    ("name", "keywords", "message"),
    [
        ("Gram", {"n": 2}, "no class 'Gram' in .*mine.py"),
        ("Idle", {}, "mine.Idle defines neither process nor process_row"),
        ("Folder", {}, "mine.Folder is not a Processor, but a Reducer"),
        ("count", {}, "mine.count is not a Processor"),
        ("Grams", {"m": 2}, r"mine.Grams\(m=2\) cannot be constructed: TypeError: .*unexpected keyword"),
        ("Grams", {"n": 0}, r"mine.Grams\(n=0\) cannot be constructed: ValueError: n is too small \(mine.py, line 7\)"),
    ],
)
def test_messages_for_bad_classes(folder: Path, name: str, keywords: dict[str, Value], message: str) -> None:
    with pytest.raises(UserCodeProblem, match=message) as caught:
        load(using(folder, name, **keywords), Processor)
    assert caught.value.span == SCRIPT.span(46, 63)


def test_suggests_a_near_miss(folder: Path) -> None:
    with pytest.raises(UserCodeProblem, match="did you mean 'Grams'"):
        load(using(folder, "Gram", n=2), Processor)
    with pytest.raises(UserCodeProblem, match=r"no module 'mime'.*\n.*\n.*\n.*did you mean 'mine'"):
        load(using(folder, "Grams", module="mime"), Processor)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = (\n", r"mine cannot be imported: SyntaxError: '\(' was never closed \(mine.py, line 1\)"),
        ("\n1 / 0\n", r"mine cannot be imported: ZeroDivisionError: division by zero \(mine.py, line 2\)"),
        (
            "import no_such_thing\n",
            r"mine cannot be imported: ModuleNotFoundError: .*no_such_thing.* \(mine.py, line 1\)",
        ),
        ("raise SystemExit(1)\n", r"mine cannot be imported: SystemExit: 1 \(mine.py, line 1\)"),
    ],
)
def test_messages_for_modules_that_cannot_be_imported(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(UserCodeProblem, match=message):
        load(using(tmp_path, "Grams"), Processor)
    assert "mine" not in sys.modules


def test_two_scripts_may_use_the_same_module_name(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "helper.py").write_text(f"WHO = {name!r}\n")
        (tmp_path / name / "mine.py").write_text(
            "import helper\nfrom unshuffle.operators import Processor\n"
            "class P(Processor):\n    who = helper.WHO\n    def process_row(self, row): yield row\n"
        )
    assert [load(using(tmp_path / name, "P"), Processor).who for name in ("a", "b", "a")] == ["a", "b", "a"]  # type: ignore[attr-defined]


def test_an_edited_module_is_reloaded(folder: Path) -> None:
    first = load(using(folder, "Folder"), Reducer)
    assert load(using(folder, "Folder"), Reducer) is first
    (folder / "mine.py").write_text(GRAMS + "# edited\n")
    assert load(using(folder, "Folder"), Reducer) is not first


def test_a_package_and_an_installed_module(tmp_path: Path) -> None:
    package = tmp_path / "kit"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "deep.py").write_text("from . import other\nfrom .other import P\n")
    (package / "other.py").write_text(GRAMS.replace("Folder", "P"))
    assert load(using(tmp_path, "P", module="kit.deep"), Reducer).__module__ == "kit.other"
    with pytest.raises(UserCodeProblem, match=r"unshuffle.operators.Reducer defines neither"):
        load(using(tmp_path, "Reducer", module="unshuffle.operators"), Reducer)


def test_modules_of_many_folders_do_not_pile_up(tmp_path: Path) -> None:
    for number in range(user_classes._MOST_LOADED + 3):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "mine.py").write_text(GRAMS)
        load(using(folder, "Grams", n=2), Processor)
    assert len(user_classes._loaded) == user_classes._MOST_LOADED
    assert any(str(tmp_path / str(user_classes._MOST_LOADED + 2)) in folders for _, folders in user_classes._loaded)
