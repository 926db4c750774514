"""The Python modules that a script can name classes and functions of.

`mine.Words` is a class of the module `mine`, which is looked for in the folder of the script, then in the folder that the
command is started in. A name without a module is looked for in the modules that `#REFERENCE` names, then in the module that
is called like the script: `usage.py` beside `usage.scope`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from unshuffle.errors import NameProblem, Span, UserCodeProblem, did_you_mean
from unshuffle.language.parse.preprocess import Module
from unshuffle.plan.logical import UserClass, UserFunction
from unshuffle.user_classes import (
    column_type,
    holds,
    is_installed,
    load_function,
    load_type,
    members,
    modules_in,
)


class UserModules:
    """The modules of one script. A SQL text that is no script has none."""

    def __init__(self, script: str | None, references: Sequence[Module]) -> None:
        self._references = references
        self._own: Module | None = None
        self._numbers: dict[UserClass, int] = {}
        if script is not None and (path := Path(script)).with_suffix(".py").is_file() and path.stem.isidentifier():
            self._own = Module(path.stem, str(path.resolve().parent))
        self.is_script = script is not None

    def number(self, function: UserFunction) -> int:
        """The identity of a function in the expressions of the script. What Spark alone knows has positive numbers."""
        return self._numbers.setdefault(function.use, -1 - len(self._numbers))

    def use(self, module: str, name: str, span: Span) -> UserClass:
        """`module.name` at a place in the script."""
        folders = dict.fromkeys((str(Path(span.source.name).resolve().parent), str(Path.cwd())))
        folders |= dict.fromkeys(each.folder for each in self._references if each.name == module.partition(".")[0])
        return UserClass(module, name, (), (), tuple(folders), span)

    def has(self, module: str, span: Span) -> bool:
        """Whether a module of that name is beside the script."""
        return self.is_script and holds(module, self.use(module, "", span).search_path)

    def function(self, module: str, name: str, span: Span) -> UserFunction:
        """The function or aggregate `module.name`."""
        use = self.use(module, name, span)
        if not self.has(module, span) and not is_installed(module):
            hint = did_you_mean(module, sorted(modules_in(use.search_path)))
            raise NameProblem(f"there is no column and no module {module!r}", span, hint)
        found = load_function(use)
        if found is None:
            known = [each for each, value in members(use).items() if callable(value) and not each.startswith("_")]
            raise UserCodeProblem(f"the module {module!r} has no function {name!r}", span, did_you_mean(name, known))
        return found

    def type(self, name: str, span: Span) -> pa.DataType | None:
        """The type of columns that a class of the user's is, by its name with or without a module. None if there is none."""
        module, _, own = name.rpartition(".")
        if not self.is_script or (module and not self.has(module, span) and not is_installed(module)):
            return None
        use = self.use(module, own, span) if module else self.unqualified(own, span)
        found = load_type(use) if use is not None else None
        return column_type(use, found) if use is not None and found is not None else None

    def unqualified(self, name: str, span: Span) -> UserClass | None:
        """The class or function of that name in the modules that need not be named."""
        found = [use for module in self._references if (use := self._in(module, name, span)) is not None]
        if len(found) > 1:
            modules = " and ".join(each.module for each in found)
            raise NameProblem(f"{name!r} is defined in {modules}", span, f"write {found[0].module}.{name}")
        if found or self._own is None:
            return found[0] if found else None
        return self._in(self._own, name, span)

    def unqualified_function(self, name: str, span: Span) -> UserFunction | None:
        use = self.unqualified(name, span)
        return load_function(use) if use is not None else None

    @staticmethod
    def _in(module: Module, name: str, span: Span) -> UserClass | None:
        use = UserClass(module.name, name, (), (), (module.folder, str(Path.cwd())), span)
        return use if name in members(use) else None
