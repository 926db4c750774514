"""The faults of `tools/mutants.py` can be planted: their texts and their test files exist."""

from __future__ import annotations

import pytest

from tools.mutants import MUTANTS, PACKAGE, ROOT, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_fault_can_be_planted(mutant: Mutant) -> None:
    assert (ROOT / "src" / PACKAGE / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.old != mutant.new
    assert all((ROOT / name).is_file() for name in mutant.test_files())
