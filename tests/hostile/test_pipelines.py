"""Records as anybody may send them, through a pipeline: each lands, or is dead-lettered, and none stops the others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost.local import Stack
from hostile.commands import Command
from hostile.conftest import Declare
from hostile.test_records import send_all
from support.hostile import TIMESTAMPS, VALUES

OTHERS = ["long", "decimal(10,2)", "timestamp", "double"]
KINDS = ["string", *(pytest.param(kind, marks=pytest.mark.proof) for kind in OTHERS)]
BEYOND_SPARK = 2**63 // 1000  # milliseconds
WRAPPED = {"field: long", "field: epoch beyond"}  # seconds that Spark wraps around
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
    for words in (["status"], ["peek", "--most", 1000]):
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
    fencepost("peek", "--spec", spec, "--most", 1000, "--format", "json").require_clean(0)


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("kind", ["string", *OTHERS])
def test_both_engines_give_the_same_rows_and_put_the_same_records_aside(
    stack: Stack, topic: str, declare: Declare, database: psycopg.Connection[Any], fencepost: Command, kind: str
) -> None:
    sent = send_all(stack, topic, [time for time in TIMESTAMPS.values() if time < BEYOND_SPARK])
    names = [*VALUES, *range(len(VALUES), len(sent))]
    shown = []
    for engine in ("python", "spark"):
        table = f"{topic}-{engine}"
        source = {"topic": topic, "value": "json", "schema": f"id long, v {kind}"}
        spec = declare(table, name=table, engine=engine, source=source, **ASIDE)
        fencepost("run", "--once", "--spec", spec).require_clean(0)
        landed, dead = landed_and_dead(database, table)
        assert sorted(landed + dead) == list(range(len(sent)))
        rows = database.execute(f'SELECT _offset, id, v::text FROM "{table}" ORDER BY 1').fetchall()
        shown.append({names[offset]: rest for offset, *rest in rows})
        require_nothing_lost(fencepost, spec)
    python, spark = shown
    differing = {name: (python.get(name), spark.get(name)) for name in names if python.get(name) != spark.get(name)}
    assert differing.keys() == (WRAPPED if kind == "timestamp" else set()), differing


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_time_that_spark_cannot_read_is_named_and_the_other_engine_takes_it(
    stack: Stack, topic: str, declare: Declare, database: psycopg.Connection[Any], fencepost: Command
) -> None:
    send_all(stack, topic, [BEYOND_SPARK + 1])
    stopped = fencepost("run", "--once", "--spec", declare(topic, engine="spark", **ASIDE)).require_clean(1)
    assert "cannot be read by Spark" in stopped.err
    fencepost("run", "--once", "--spec", declare(topic, **ASIDE)).require_clean(0)
    landed, dead = landed_and_dead(database, topic)
    assert [*landed, *dead] == list(range(len(landed) + 1))
