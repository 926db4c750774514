"""The machine that plans are made for: its defaults, and what a calibration file may contain."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from unshuffle.cost.machine import VARIABLE, Machine, machine_from, this_machine
from unshuffle.errors import FileProblem, UserError


def write(folder: Path, content: object) -> Path:
    path = folder / "calibration.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_a_written_machine_is_read_back(tmp_path: Path) -> None:
    machine = replace(Machine(), cores=12, send_row=1e-7, task_memory=1e9)
    assert machine_from(write(tmp_path, {"machine": asdict(machine), "jobs": {}})) == machine


def test_constants_that_a_file_omits_have_their_defaults(tmp_path: Path) -> None:
    machine = machine_from(write(tmp_path, {"machine": {"send_row": 1e-7}}))
    assert machine == replace(Machine(), cores=os.cpu_count(), send_row=1e-7)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", 'has no object "machine"'),
        ({"machine": [1]}, 'has no object "machine"'),
        ({"machine": {"send_rows": 1e-7}}, "'send_rows' is no constant of a machine"),
        ({"machine": {"send_row": "fast"}}, "send_row is 'fast'"),
        ({"machine": {"send_row": -1}}, "send_row is -1"),
        ({"machine": {"send_row": True}}, "send_row is True"),
        ({"machine": {"send_row": 10**400}}, "send_row is a very large number"),
        ({"machine": {"cores": 10**400}}, "cores is a very large number"),
        ('{"machine": {"send_row": NaN}}', "send_row is nan"),
        ('{"machine": {"task": 1e999}}', "task is inf"),
        ({"machine": {"task_memory": 0}}, "more than 0"),
        ({"machine": {"cores": 0}}, "cores is 0"),
        ({"machine": {"cores": 2.5}}, "cores is 2.5"),
        ({"machine": {"fan_in": 1}}, "fan_in is 1, and must be a whole number from 2"),
    ],
)
def test_a_bad_file_is_a_message(tmp_path: Path, content: object, said: str) -> None:
    with pytest.raises(UserError) as caught:
        machine_from(write(tmp_path, content))
    assert said in str(caught.value)


def test_a_near_miss_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'send_row'"):
        machine_from(write(tmp_path, {"machine": {"send_rows": 1e-7}}))


@pytest.mark.parametrize("name", ["missing.json", "."])
def test_a_file_that_cannot_be_read_is_a_message(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileProblem, match="cannot be read"):
        machine_from(tmp_path / name)


def test_bytes_that_are_not_text_are_a_message(tmp_path: Path) -> None:
    path = tmp_path / "binary.json"
    path.write_bytes(b"\xff\xfe{")
    with pytest.raises(FileProblem, match="it is not text"):
        machine_from(path)


def test_the_environment_may_name_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert this_machine() == Machine(cores=os.cpu_count() or 2)
    monkeypatch.setenv(VARIABLE, str(write(tmp_path, {"machine": {"cores": 3}})))
    assert this_machine().cores == 3


def test_an_exchange_makes_as_many_partitions_as_cores_or_a_multiple() -> None:
    machine = Machine(cores=6)
    assert machine.ideal_partitions(10, 100) == 6
    assert machine.ideal_partitions(1e9, 6 * machine.partition_bytes + 1) == 12


def test_files_are_split_so_that_all_cores_have_a_split() -> None:
    machine = Machine(cores=4)
    assert machine.file_pieces(1000) == 1
    assert machine.file_pieces(64e6) >= 4
    assert machine.file_pieces(10 * machine.file_piece_bytes) >= 10


def test_no_core_has_more_splits_than_another() -> None:
    machine = Machine(cores=4)
    most = machine.file_piece_bytes
    assert machine.file_pieces(4 * most) == 4
    assert machine.most_of_files(4 * most) == most
    assert machine.file_pieces(4.5 * most) == 8
    assert machine.most_of_files(4.5 * most) == 4.5 * most / 8
