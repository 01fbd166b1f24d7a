"""Records as anybody may send them, through a pipeline: each lands, or is put aside, and none stops the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost.local import Stack
from fencepost.spec import PipelineSpec
from hostile.commands import Command
from hostile.conftest import Declare
from hostile.test_records import send_all
from support.hostile import TIMESTAMPS

pytestmark = pytest.mark.skipif(
    "dead_letters" not in PipelineSpec.model_fields, reason="needs dead letters without a brake"
)
OTHERS = ["long", "decimal(10,2)", "timestamp", "double"]
KINDS = ["string", *(pytest.param(kind, marks=pytest.mark.proof) for kind in OTHERS)]
ASIDE = {"on_error": "dead_letter", "dead_letters": {"max_share": 1}}


def landed_and_dead(database: psycopg.Connection[Any], table: str) -> tuple[list[int], list[int]]:
    """By offset."""
    rows = database.execute(f'SELECT _offset FROM "{table}" ORDER BY 1').fetchall()
    dead = database.execute(f'SELECT "offset" FROM "{table}_dead" ORDER BY 1').fetchall()
    return [offset for (offset,) in rows], [offset for (offset,) in dead]


def require_nothing_lost(fencepost: Command, spec: Path) -> None:
    """By the audit, which finds the one record whose sender gave it a wrong checksum."""
    (found,) = fencepost("audit", "--spec", spec, "--format", "json").require_clean(0, 1).lines()
    assert [found[word] for word in ("lost", "duplicated", "phantom")] == [0, 0, 0]


def test_a_pipeline_of_bytes_carries_every_record_exactly(
    stack: Stack, topic: str, declare: Declare, database: psycopg.Connection[Any], fencepost: Command
) -> None:
    """But for times that PostgreSQL does not have."""
    sent = send_all(stack, topic)
    spec = declare(topic, **ASIDE)
    fencepost("run", "--once", "--spec", spec).require_clean(0)
    landed, dead = landed_and_dead(database, topic)
    assert sorted(landed + dead) == list(range(len(sent)))
    assert len(sent) - len(TIMESTAMPS) <= min(dead, default=len(sent))
    found = database.execute(f'SELECT value, key FROM "{topic}" ORDER BY _offset').fetchall()
    exact = [(None if value is None else bytes(value), None if key is None else bytes(key)) for value, key in found]
    assert exact == [sent[offset] for offset in landed]
    require_nothing_lost(fencepost, spec)
    for words in (["peek", "--most", 1000], ["status"], ["peek", "--format", "json"]):
        fencepost(*words, "--spec", spec).require_clean(0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_of_json_lands_each_record_or_puts_it_aside(
    stack: Stack, topic: str, declare: Declare, database: psycopg.Connection[Any], fencepost: Command, kind: str
) -> None:
    sent = send_all(stack, topic)
    spec = declare(topic, source={"topic": topic, "value": "json", "schema": f"id long, v {kind}"}, **ASIDE)
    fencepost("run", "--once", "--spec", spec).require_clean(0)
    landed, dead = landed_and_dead(database, topic)
    assert sorted(landed + dead) == list(range(len(sent)))
    assert landed
    assert dead
    require_nothing_lost(fencepost, spec)
    fencepost("peek", "--spec", spec, "--most", 1000).require_clean(0)
