"""Which files a path names."""

from __future__ import annotations

from pathlib import Path

from unshuffle.catalog.files import DataFile, HashedTuple, absolute, data_files, file_system


def test_files_below_a_link_are_named_as_they_were_asked_for(tmp_path: Path) -> None:
    """As Spark names them: otherwise a table below a link would not be the one that Spark has listed."""
    (tmp_path / "table" / "day=1").mkdir(parents=True)
    (tmp_path / "table" / "day=1" / "a.parquet").touch()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "table")
    for path in (str(link), f"file:{link}"):
        (found,) = data_files([path], path)
        assert found.path == f"{path}/day=1/a.parquet"
        assert found.partition == (("day", "1"),)
    assert absolute(f"file:{link}") == str(tmp_path / "table")


def test_a_tuple_that_is_hashed_once_is_found_like_any_other() -> None:
    listed = (DataFile("a", 1, ()), DataFile("b", 2, ()))
    hashed = HashedTuple.of(listed)
    assert HashedTuple.of(hashed) is hashed
    assert {listed: "found"}[hashed] == {hashed: "found"}[listed] == "found"
    assert hashed != HashedTuple.of(listed[:1])


def test_only_a_uri_has_escaped_characters(tmp_path: Path) -> None:
    """Spark escapes characters in the names of folders, and Hadoop writes these names as they are behind `file:`."""
    (tmp_path / "p=a%2Fb").mkdir()
    (tmp_path / "p=a%2Fb" / "a.parquet").touch()
    for path in (str(tmp_path), f"file:{tmp_path}"):
        (found,) = data_files([path], path)
        system, inner = file_system(found.path)
        assert system.get_file_info(inner).is_file
        assert absolute(found.path) == f"{tmp_path}/p=a%2Fb/a.parquet"
    assert absolute(f"file://{tmp_path}/p=a%252Fb") == f"{tmp_path}/p=a%2Fb"
