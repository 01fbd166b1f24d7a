"""One table, its ledger, and the writer processes over it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.local import Stack
from sweep.arena import Arena


@pytest.fixture
def arena(stack: Stack, tmp_path: Path) -> Iterator[Arena]:
    with Arena(stack.dsn, tmp_path) as arena:
        yield arena
