"""Remedies that are SQL, followed: the statement in the text, executed as it stands, and the run that was refused."""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from consuming.relays import Relay
from fencepost.errors import FencepostError, TopicRecreated, Usage
from fencepost.kafka.topics import delete_topic
from fencepost.local import Stack
from remedies.following import commands, fencepost, follow

UPSERT: dict[str, Any] = {"options": {"mode": "upsert", "key": ["id"]}}


@pytest.fixture
def relay(stack: Stack, tmp_path: Path) -> Relay:
    relay = Relay(stack, tmp_path)
    relay.produce(range(20))
    return relay


def _execute(relay: Relay, refused: FencepostError) -> None:
    statements = re.findall(r"(?:ALTER TABLE|CREATE UNIQUE INDEX|UPDATE)[^;]*", refused.remedy)
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
def test_a_key_that_may_be_null_is_fixed_by_the_statement(relay: Relay) -> None:
    relay.run()
    relay.sql(f"CREATE UNIQUE INDEX ON {relay.name} (id)")
    with pytest.raises(Usage, match="is null") as refused:
        relay.run(**UPSERT)
    _execute(relay, refused.value)
    relay.produce(range(20, 30))
    relay.run(**UPSERT)
    assert Counter(relay.landed()) == Counter(range(30))


def test_rows_of_a_deleted_topic_are_renamed_by_the_statement_and_upsert_takes_the_new_ones(relay: Relay) -> None:
    """Their offsets are higher than those of the new records, which would be taken for older and dropped."""
    relay.partitions = 1
    _make_again(relay)
    relay.produce([*range(20), *range(20)])
    relay.run(**UPSERT)
    _make_again(relay)
    relay.produce(range(10, 25))
    with pytest.raises(TopicRecreated) as anew:
        relay.run(**UPSERT)
    shutil.copy(relay.declare(**UPSERT), relay.folder / "fencepost.yml")
    (command,) = commands(anew.value)
    refused = fencepost(relay.folder, *shlex.split(command)[1:])
    assert (refused.code, "look newer" in refused.said) == (2, True)
    _execute(relay, Usage("", refused.said))
    follow(anew.value, relay.declare(**UPSERT))
    relay.run(**UPSERT)
    rows = relay.sql(f"SELECT id, split_part(_topic, '@', 1) = _topic, _offset FROM {relay.name} ORDER BY id")
    assert rows == [(id_, id_ >= 10, id_ - 10 if id_ >= 10 else 20 + id_) for id_ in range(25)]
    found = fencepost(relay.folder, "audit")
    assert found.code == 0
    assert "10 rows of a topic of the same name that was deleted, left out" in found.said


def _make_again(relay: Relay) -> None:
    delete_topic(relay.cluster, relay.name)
    relay.make_topic()
