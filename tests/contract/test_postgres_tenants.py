"""Others in the same database: what they call themselves means nothing, what they have locked is told."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from contract.keyed import PARTITIONS, Keyed, Maker
from fencepost.errors import Refused, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.local import Stack
from fencepost.sinks.postgres import PostgresStore, writers
from fencepost.sinks.postgres.connection import writer_name

MEMBERS = pytest.mark.parametrize("members", [False, True], ids=["one owner", "members"])


@pytest.fixture
def shop(keyed: Maker) -> Keyed:
    return keyed(None)


class Stranger:
    """A login that may connect, and nothing else."""

    def __init__(self, stack: Stack) -> None:
        self.name, secret = f"stranger_{uuid4().hex[:10]}", uuid4().hex
        self._owner = psycopg.connect(stack.dsn, autocommit=True)
        self._owner.execute(f"CREATE ROLE {self.name} LOGIN PASSWORD '{secret}'")
        self._dsn = make_conninfo(stack.dsn, user=self.name, password=secret)

    def grant(self, schema: str) -> None:
        """As much as a pipeline's role has."""
        self._owner.execute(f"GRANT USAGE ON SCHEMA {schema} TO {self.name}")
        self._owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {self.name}")

    def session(self, application_name: str) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self._dsn, application_name=application_name)

    def drop(self) -> None:
        with closing(self._owner):
            self._owner.execute(f"DROP OWNED BY {self.name}; DROP ROLE {self.name}")


@pytest.fixture
def stranger(stack: Stack, shop: Keyed) -> Iterator[Stranger]:
    stranger = Stranger(stack)
    yield stranger
    stranger.drop()


def name_of(shop: Keyed) -> str:
    return writer_name(shop.name, shop.settings.schema)


@MEMBERS
def test_a_session_that_calls_itself_ours_stops_no_takeover_and_is_not_ended(
    shop: Keyed, stranger: Stranger, stack: Stack, members: bool
) -> None:
    user, secret = f"user_{shop.name}", uuid4().hex  # not a superuser, who may end everybody
    shop.connection.execute(f"CREATE ROLE {user} LOGIN PASSWORD '{secret}'".encode())
    shop.connection.execute(f"GRANT ALL ON SCHEMA {shop.settings.schema} TO {user}".encode())
    shop.connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {shop.settings.schema} TO {user}".encode())
    shop.connection.execute(f"GRANT ALL ON {shop.name} TO {user}".encode())
    own = replace(shop.settings, dsn=make_conninfo(stack.dsn, user=user, password=secret), members=members)
    with closing(stranger.session(name_of(shop))) as theirs, closing(PostgresStore(own)) as store:
        theirs.execute("SELECT 1")  # in a transaction, which stays open
        tenure = store.take_over(shop.name, uuid4(), dict.fromkeys(PARTITIONS, 0), {})
        store.renew(tenure, uuid4())
        assert theirs.execute("SELECT 2").fetchone() == (2,)
    shop.connection.execute(f"DROP OWNED BY {user}; DROP ROLE {user}".encode())


@MEMBERS
def test_a_pipeline_of_the_same_name_under_another_ledger_is_left_alone(shop: Keyed, members: bool) -> None:
    shop.deliver(0, [(1, "a")], Guarantee.EXACTLY_ONCE)
    writer = shop.store.writer()
    elsewhere = replace(shop.settings, schema=f"{shop.name}_else", members=members)
    with closing(PostgresStore(elsewhere)) as other:
        other.install()
        shop.sql("DELETE FROM {}")  # so that the other one may begin
        other.take_over(shop.name, uuid4(), dict.fromkeys(PARTITIONS, 0), {})
        other.set_positions(shop.name, dict.fromkeys(PARTITIONS, 5), {})
        assert writer.execute("SELECT 1").fetchone() == (1,)
    shop.connection.execute(f"DROP SCHEMA {shop.name}_else CASCADE".encode())


@pytest.mark.parametrize(
    "lock",
    ["SELECT 1 FROM {}.positions FOR UPDATE", "SELECT 1 FROM {}.pipelines FOR UPDATE", "LOCK TABLE {}.positions"],
    ids=["positions", "pipeline", "table"],
)
def test_who_holds_what_a_takeover_needs_is_named_and_the_remedy_helps(
    shop: Keyed, stranger: Stranger, stack: Stack, monkeypatch: pytest.MonkeyPatch, lock: str
) -> None:
    monkeypatch.setattr(writers, "PATIENCE", 0.3)
    stranger.grant(shop.settings.schema)
    role = f"user_{shop.name}"
    shop.connection.execute(f"CREATE ROLE {role}; GRANT {role} TO current_user".encode())
    shop.connection.execute(f"GRANT ALL ON SCHEMA {shop.settings.schema} TO {role}".encode())
    shop.connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA {shop.settings.schema} TO {role}".encode())
    own = replace(shop.settings, dsn=make_conninfo(stack.dsn, options=f"-c role={role}"))
    with closing(stranger.session("psql")) as theirs, closing(PostgresStore(own)) as store:
        theirs.execute(lock.format(shop.settings.schema).encode())
        with pytest.raises(Refused) as refused:
            store.take_over(shop.name, uuid4(), dict.fromkeys(PARTITIONS, 0), {})
        pid = theirs.info.backend_pid
        assert f"{stranger.name!r} (pid {pid})" in refused.value.message
        remedy = re.search(r"SELECT pg_catalog.pg_terminate_backend\(\d+\)", refused.value.remedy or "")
        assert remedy
        shop.connection.execute(remedy[0].encode())
        assert store.take_over(shop.name, uuid4(), dict.fromkeys(PARTITIONS, 0), {}).positions
    shop.connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}".encode())


def test_a_lock_of_our_own_role_is_named_when_it_is_not_to_be_had(shop: Keyed, stack: Stack) -> None:
    with closing(psycopg.connect(stack.dsn)) as other:
        other.execute(f"SELECT 1 FROM {shop.settings.schema}.pipelines FOR UPDATE")
        with pytest.raises(Unreachable, match=rf"locked by 'postgres' \(pid {other.info.backend_pid}\)"):
            shop.store._take_over(shop.tenure, {})
