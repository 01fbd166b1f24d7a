"""A role with no more than the rights it needs can write and take over; writers of another role are not ended."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from fencepost.errors import Fenced, Refused
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import CrashAction
from fencepost.sinks.postgres import PostgresStore, ledger
from fencepost.sinks.postgres.connection import writer_name
from sweep.arena import NOTHING, Arena, Point

EXACTLY_ONCE = Guarantee.EXACTLY_ONCE


class Role:
    """A login of its own, as `CREATE ROLE` makes it: no rights at all."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self.name = f"role_{uuid4().hex[:12]}"
        secret = uuid4().hex
        arena.sql(f"CREATE ROLE {self.name} LOGIN PASSWORD '{secret}'")
        self.dsn = make_conninfo(arena.dsn, user=self.name, password=secret)

    def grant(self) -> None:
        """What the documentation says that a running pipeline needs."""
        settings = self._arena.settings
        self._arena.sql(f"GRANT USAGE ON SCHEMA {settings.schema} TO {self.name}")
        self._arena.sql(
            f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {settings.schema} TO {self.name}"
        )
        self._arena.sql(f"GRANT SELECT, INSERT ON {settings.table} TO {self.name}")

    def drop(self) -> None:
        self._arena.sql(f"DROP OWNED BY {self.name}; DROP ROLE {self.name}")


@pytest.fixture
def roles(arena: Arena) -> Iterator[list[Role]]:
    """Two roles, and a ledger that an administrator has made."""
    with closing(PostgresStore(arena.settings)) as administrator:
        ledger.install(administrator.connection(), arena.settings.schema)
    made = [Role(arena), Role(arena)]
    yield made
    arena.end_all()
    for role in made:
        role.drop()


def test_few_rights_are_enough_to_write_and_to_take_over_from_a_stopped_writer(arena: Arena, roles: list[Role]) -> None:
    role, _ = roles
    role.grant()
    crash = arena.crash(Point.AFTER_THE_ADVANCE, CrashAction.STOP)
    zombie = arena.start_and_stall(arena.work(EXACTLY_ONCE, dsn=role.dsn, crash=crash))
    successor = arena.run(arena.work(EXACTLY_ONCE, dsn=role.dsn))
    assert (successor.code, successor.troubles) == (0, []), successor.errors
    assert arena.wake(zombie).code == Fenced.exit_code
    assert arena.lost_and_doubled() == NOTHING


@pytest.mark.proof
def test_writers_of_another_role_are_left_alone_and_the_error_says_what_to_do(arena: Arena, roles: list[Role]) -> None:
    theirs, ours = roles
    theirs.grant()
    ours.grant()
    crash = arena.crash(Point.AFTER_THE_ADVANCE, CrashAction.STOP)
    stopped = arena.start_and_stall(arena.work(EXACTLY_ONCE, dsn=theirs.dsn, crash=crash))
    refused = arena.run(arena.work(EXACTLY_ONCE, dsn=ours.dsn))
    assert refused.code == Refused.exit_code
    for part in (theirs.name, "(pid ", "pg_terminate_backend"):
        assert part in refused.errors
    arena.sql(
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity "
        f"WHERE application_name = '{writer_name(arena.settings.pipeline, arena.settings.schema)}'"
    )
    assert arena.run(arena.work(EXACTLY_ONCE, dsn=ours.dsn)).code == 0
    assert arena.wake(stopped).code == Fenced.exit_code
    assert arena.lost_and_doubled() == NOTHING


def test_a_role_without_rights_is_refused_in_plain_words(arena: Arena, roles: list[Role]) -> None:
    _, stranger = roles
    refused = arena.run(arena.work(EXACTLY_ONCE, dsn=stranger.dsn))
    assert refused.code == Refused.exit_code
    assert "permission denied" in refused.errors
    assert "Traceback" not in refused.errors
