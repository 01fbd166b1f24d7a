"""A group of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from consuming.groups import Group
from fencepost.local import Stack


@pytest.fixture
def group(stack: Stack, tmp_path: Path) -> Group:
    return Group(stack, tmp_path)
