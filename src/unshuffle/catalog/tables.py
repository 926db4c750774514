"""Tables in folders: `DIR/NAME.parquet` (a file or a folder) and `DIR/NAME.ss` are the table NAME."""

from __future__ import annotations

from pathlib import Path

from unshuffle.errors import FileProblem


class TableFolders:
    """The tables in the folders of --tables. A table in a later folder hides one of the same name in an earlier folder."""

    def __init__(self, folders: tuple[str, ...] = ()) -> None:
        self._paths: dict[str, Path] = {}
        for folder in folders:
            if not Path(folder).is_dir():
                raise FileProblem(f"there is no folder {folder!r} with tables")
            try:
                entries = sorted(Path(folder).iterdir())
            except OSError as error:
                raise FileProblem(f"the folder {folder!r} cannot be read: {error.strerror}") from None
            for entry in entries:
                if entry.suffix in (".parquet", ".ss") and not entry.name.startswith((".", "_")):
                    self._paths[entry.stem.lower()] = entry

    def find(self, name: str) -> Path | None:
        return self._paths.get(name.lower())

    def names(self) -> list[str]:
        return [path.stem for path in self._paths.values()]
