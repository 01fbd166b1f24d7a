"""A group of its own for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from consuming.groups import Group
from fencepost.lab.scenarios.field import QUICK, Field
from fencepost.local import Stack


@pytest.fixture
def group(stack: Stack, tmp_path: Path) -> Group:
    return Group(stack, tmp_path)


@pytest.fixture
def behind_proxies(field: Field, tmp_path: Path) -> Group:
    """One partition, clients that notice trouble soon, and brokers that miss a member soon."""
    return Group(field.stack, tmp_path, 1, {**QUICK, "session.timeout.ms": "6000", "heartbeat.interval.ms": "500"})
