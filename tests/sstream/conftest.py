"""Tests of streams make thousands of small files: on a RAM disk, if there is one, they take a fraction of the time."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

RAM_DISK = Path("/dev/shm")


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    is_usable = RAM_DISK.is_dir() and os.access(RAM_DISK, os.W_OK)
    folder = Path(tempfile.mkdtemp(prefix="unshuffle-", dir=RAM_DISK if is_usable else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
