"""Remedies that are SQL, followed: the statement in the text, executed as it stands, and the run that was refused."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from consuming.relays import Relay
from fencepost.errors import FencepostError, Usage
from fencepost.local import Stack

UPSERT: dict[str, Any] = {"options": {"mode": "upsert", "key": ["id"]}}


@pytest.fixture
def relay(stack: Stack, tmp_path: Path) -> Relay:
    relay = Relay(stack, tmp_path)
    relay.produce(range(20))
    return relay


def _execute(relay: Relay, refused: FencepostError) -> None:
    statements = re.findall(r"(?:ALTER TABLE|CREATE UNIQUE INDEX)[^;]*", refused.remedy)
    assert statements, refused.remedy
    for statement in statements:
        relay.sql(statement)


def test_columns_that_a_table_lacks_are_added_by_the_statement(relay: Relay) -> None:
    relay.sql(f"CREATE TABLE {relay.name} (id bigint)")
    with pytest.raises(Usage) as refused:
        relay.run()
    _execute(relay, refused.value)
    relay.run()
    assert Counter(relay.landed()) == Counter(range(20))


def test_a_key_gets_its_unique_index_and_is_never_null_by_the_statements(relay: Relay) -> None:
    relay.run()
    relay.produce(range(10, 30))
    with pytest.raises(Usage, match="no unique index") as refused:
        relay.run(**UPSERT)
    _execute(relay, refused.value)
    relay.run(**UPSERT)
    assert Counter(relay.landed()) == Counter(range(30))


@pytest.mark.proof
def test_a_key_that_may_be_null_is_mended_by_the_statement(relay: Relay) -> None:
    relay.run()
    relay.sql(f"CREATE UNIQUE INDEX ON {relay.name} (id)")
    with pytest.raises(Usage, match="is null") as refused:
        relay.run(**UPSERT)
    _execute(relay, refused.value)
    relay.produce(range(20, 30))
    relay.run(**UPSERT)
    assert Counter(relay.landed()) == Counter(range(30))
