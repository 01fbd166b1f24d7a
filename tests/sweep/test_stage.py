"""A stage between tasks and table, without Spark: what counts is moved, all of it or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from fencepost.delivery import deliver
from fencepost.errors import InputCut, Unreachable, Usage
from fencepost.guarantee import Guarantee
from fencepost.local import Stack
from fencepost.model import Batch, Span, Tenure
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.moving import Staged, move
from fencepost.sinks.postgres.stage import Attempt, Stage, name_for, require_right
from sweep.arena import NOTHING, Arena
from sweep.test_roles import Role
from sweep.work import EVENTS, ORDERS, parts

SPANS = {ORDERS: Span(0, EVENTS)}


@dataclass
class Driver:
    """What a Spark driver and its tasks do, in one process."""

    settings: PostgresSettings

    def __post_init__(self) -> None:
        self.store = PostgresStore(self.settings, write=move)
        self.tenure = self.store.take_over(self.settings.pipeline, uuid4(), {ORDERS: 0}, {})

    def stage(self, number: int = 1, tenure: Tenure | None = None) -> Stage:
        own = self.settings
        name = name_for(own.pipeline, (tenure or self.tenure).token, number)
        made = Stage(own.schema, name, own.table, own.columns, provenance=False)
        made.make(self.store.writer())
        return made

    def task(self, stage: Stage, number: int, attempt: int) -> Attempt:
        """One of three tasks, on a connection of its own."""
        size = EVENTS // 3
        with closing(PostgresStore(self.settings)) as store:
            return stage.fill(store.writer(), number, attempt, parts(Span(number * size, (number + 1) * size)))

    def deliver(self, stage: Stage, attempts: list[Attempt]) -> None:
        batch: Batch[Any] = Batch(SPANS, Staged(stage, tuple(attempts), {}), self.tenure)
        deliver(Guarantee.EXACTLY_ONCE, batch, self.store, self.store)

    def stages(self) -> set[str]:
        query = "SELECT relname FROM pg_class WHERE starts_with(relname, 'stage_') AND relnamespace = %s::regnamespace"
        found = self.store.connection().execute(query, (self.settings.schema,))
        return {name for (name,) in found.fetchall() if not name.endswith("_done")}


@pytest.fixture
def driver(arena: Arena) -> Iterator[Driver]:
    driver = Driver(arena.settings)
    with closing(driver.store):
        yield driver


def test_only_attempts_that_were_returned_are_moved(driver: Driver, arena: Arena) -> None:
    stage = driver.stage()
    attempts = [driver.task(stage, number, number) for number in range(3)]
    again = driver.task(stage, 1, 7)  # its first attempt was done, and then failed
    driver.deliver(stage, [attempts[0], again, attempts[2]])
    assert arena.lost_and_doubled() == NOTHING
    assert driver.store.positions(driver.settings.pipeline) == {ORDERS: EVENTS}


def test_rows_that_end_before_their_input_does_are_not_in_the_stage(driver: Driver, arena: Arena) -> None:
    def cut() -> Iterator[pa.RecordBatch]:
        yield from parts(Span(0, 500))
        raise InputCut("the input broke off")

    stage = driver.stage()
    with closing(PostgresStore(driver.settings)) as store, pytest.raises(InputCut):
        stage.fill(store.writer(), 0, 1, cut())
    for table in (stage.name, f"{stage.name}_done"):
        assert arena.sql(f"SELECT count(*) FROM {stage.schema}.{table}") == [(0,)]


def test_a_stage_that_a_crash_of_the_database_emptied_moves_nothing(stack: Stack, driver: Driver, arena: Arena) -> None:
    stage = driver.stage()
    attempts = [driver.task(stage, number, number) for number in range(3)]
    try:
        stack.postgres.kill()
    finally:
        stack.postgres.restart()
    driver.store.close()  # a driver with a new line would not see that anything was wrong
    with pytest.raises(Unreachable, match="holds 0 rows of 0 tasks, and 3 tasks put 3,000 there"):
        driver.deliver(stage, attempts)
    assert arena.landed() == []
    assert driver.store.positions(driver.settings.pipeline) == {ORDERS: 0}

    again = driver.stage(2)
    driver.deliver(again, [driver.task(again, number, number) for number in range(3)])
    assert arena.lost_and_doubled() == NOTHING


@pytest.mark.parametrize("lost", ["DELETE FROM {} WHERE ctid = (SELECT min(ctid) FROM {})", "TRUNCATE {}_done"])
def test_one_row_less_or_a_task_that_is_not_done_is_enough_to_move_nothing(
    driver: Driver, arena: Arena, lost: str
) -> None:
    stage = driver.stage()
    attempts = [driver.task(stage, number, number) for number in range(3)]
    name = f"{stage.schema}.{stage.name}"
    arena.sql(lost.format(name, name))
    with pytest.raises(Unreachable):
        driver.deliver(stage, attempts)
    assert arena.landed() == []


def test_who_takes_over_or_renews_drops_older_stages_of_the_same_pipeline_only(driver: Driver) -> None:
    own = driver.stage()
    other = Driver(replace(driver.settings, pipeline="other"))
    with closing(other.store):
        name = other.stage().name
        attempts = [driver.task(own, 0, 0)]

        renewed = driver.store.renew(driver.tenure, uuid4())
        assert driver.stages() == {name}
        with pytest.raises(Unreachable, match="the stage of this batch is gone"):
            driver.task(own, 1, 1)
        with pytest.raises(Unreachable, match="the stage of this batch is gone"):
            Staged(own, tuple(attempts), {}).require_whole(driver.store.connection())

        kept = driver.stage(tenure=renewed)
        driver.store.take_over(driver.settings.pipeline, renewed.token, {ORDERS: 0}, {})  # a partition was added
        assert driver.stages() == {name, kept.name}
        driver.store.take_over(driver.settings.pipeline, uuid4(), {ORDERS: 0}, {})
        assert driver.stages() == {name}


def test_a_role_that_may_not_make_a_stage_is_told_what_it_needs(driver: Driver, arena: Arena) -> None:
    role = Role(arena)
    try:
        role.grant()
        with closing(PostgresStore(replace(driver.settings, dsn=role.dsn))) as store:
            with pytest.raises(Usage, match="Sort") as refused:
                require_right(store.connection(), driver.settings.schema, "Sort")
            arena.sql(refused.value.remedy)
            require_right(store.connection(), driver.settings.schema, "Sort")
            theirs = driver.stage()
            driver.store.close()
            store.take_over(driver.settings.pipeline, uuid4(), {ORDERS: 0}, {})
            assert driver.stages() == {theirs.name}  # of another role: left where it is
    finally:
        role.drop()
