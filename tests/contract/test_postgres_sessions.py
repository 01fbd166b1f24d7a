"""A session of one's own: what is staged in it is there when it is merged, or nothing is merged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import conninfo

from contract.keyed import DEDUPE, UPSERT, Keyed, Maker
from fencepost.admin.stored import stored_state
from fencepost.errors import Unreachable, Usage
from fencepost.local import Stack
from fencepost.model import Batch, Merge
from fencepost.sinks.postgres import PostgresStore, own_session
from fencepost.sinks.postgres.connection import connect, transaction, translated
from fencepost.sinks.postgres.merging import Merging
from fencepost.sinks.postgres.reading import reader
from fencepost.spec import PipelineSpec
from support.bouncer import bouncer, needs_pgbouncer

MODES = pytest.mark.parametrize("merge", [UPSERT, DEDUPE], ids=["upsert", "dedupe"])


@MODES
def test_rows_that_were_staged_in_another_session_are_not_merged(
    keyed: Maker, monkeypatch: pytest.MonkeyPatch, merge: Merge
) -> None:
    """Another session has no mark, or somebody else's, and a table of the same name with somebody else's rows."""
    shop = keyed(merge)
    stage = Merging.stage

    def stage_and_lose(self: Merging, connection: Any, batch: Batch[Any]) -> None:
        stage(self, connection, batch)
        connection.execute("SELECT pg_catalog.set_config('fencepost.session', 'of another', false)")

    monkeypatch.setattr(Merging, "stage", stage_and_lose)
    with pytest.raises(Usage, match="another session"):
        shop.write(0, [(1, "a"), (1, "b")])
    assert shop.table() == {}
    monkeypatch.undo()
    shop.store = shop.another_store()
    assert shop.write(0, [(1, "a"), (1, "b")]).rows == 2


def test_control_a_session_that_was_emptied_is_noticed_before_anything_is_staged(keyed: Maker) -> None:
    shop = keyed(UPSERT)
    shop.store.connection().execute("DISCARD ALL")
    with pytest.raises(Usage, match="another session"):
        shop.write(0, [(1, "a")])
    assert shop.table() == {}


def through(shop: Keyed, dsn: str) -> PostgresStore:
    return PostgresStore(replace(shop.settings, dsn=dsn))


@pytest.fixture
def unlucky(monkeypatch: pytest.MonkeyPatch) -> None:
    """The look at the login shows nothing, as it may in a pool that others use at that moment."""
    monkeypatch.setattr(own_session, "_compare", lambda *_: None)


def both_staged(shop: Keyed, stores: list[PostgresStore]) -> None:
    """Each store stages a row of its own in partition 0 or 1, and merges what it finds staged then."""
    batches = [shop.batch(at, 0, shop.rows(at, 0, [(at, f"of {at}"), (at, f"of {at}")])) for at in (0, 1)]
    for store, batch in zip(stores, batches, strict=True):
        store._stage(batch)
    for store, batch in zip(stores, batches, strict=True):
        with transaction(store.writer()) as connection:
            store._take(connection, batch)


HINDRANCES = {
    "statement_timeout": "'50ms'",
    "idle_session_timeout": "'50ms'",
    "transaction_timeout": "'50ms'",
    "default_transaction_isolation": "'serializable'",
}


@pytest.fixture
def hindered(stack: Stack) -> Iterator[str]:
    """The DSN of a role that an administrator gave short limits."""
    role = f"hindered_{uuid4().hex[:8]}"
    with psycopg.connect(stack.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN SUPERUSER PASSWORD 'secret'")
        for name, value in HINDRANCES.items():
            connection.execute(f"ALTER ROLE {role} SET {name} TO {value}")
        yield conninfo.make_conninfo(stack.dsn, user=role, password="secret")  # noqa: S106
        connection.execute(f"DROP ROLE {role}")


def test_a_roles_limits_of_time_do_not_end_a_run(hindered: str) -> None:
    with closing(connect(hindered)) as connection:
        with transaction(connection):
            connection.execute("SELECT pg_sleep(0.2)")
        found = [connection.execute(f"SHOW {name}").fetchone() for name in HINDRANCES]
        assert found == [("0",), ("0",), ("0",), ("read committed",)]
    with psycopg.connect(hindered) as control, pytest.raises(psycopg.Error, match="timeout"):
        control.execute("SELECT pg_sleep(0.2)")


def test_a_server_that_only_reads_is_named(stack: Stack) -> None:
    dsn = conninfo.make_conninfo(stack.dsn, options="-c default_transaction_read_only=on")
    with closing(connect(dsn)) as connection, pytest.raises(Unreachable) as trouble, translated("write"):
        connection.execute("CREATE TABLE never (id int)")
    assert "default_transaction_read_only" in trouble.value.remedy


def positions_seen(shop: Keyed, dsn: str) -> int:
    """How many, as `status` and `plan` read them."""
    options = {"dsn": dsn, "table": shop.name, "ledger_schema": shop.store.settings.schema}
    sink = {"format": "postgres", "options": options}
    declared = {"name": shop.name, "guarantee": "exactly-once", "source": {"topic": "orders"}, "sink": sink}
    return len(stored_state(PipelineSpec.model_validate(declared)).positions)


def test_who_only_looks_needs_no_session_of_his_own(
    stack: Stack, keyed: Maker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As behind a pooler in transaction mode, where whatever writes is refused."""
    shop = keyed(UPSERT)
    shop.write(0, [(1, "a")])

    def refused(*_given: object) -> None:
        raise Usage("each transaction has another session")

    monkeypatch.setattr(own_session, "require_own", refused)
    with pytest.raises(Usage, match="another session"):
        connect(stack.dsn)
    assert positions_seen(shop, stack.dsn) == len(shop.tenure.positions)


@pytest.mark.proof
@needs_pgbouncer
class TestPgBouncer:
    @pytest.mark.parametrize("mode", ["transaction", "statement"])
    @pytest.mark.parametrize("size", [1, 3])
    def test_writers_are_refused_where_sessions_are_mixed(self, stack: Stack, mode: str, size: int) -> None:
        with bouncer(stack, mode, size) as dsn, pytest.raises(Usage, match="pool_mode = session"):
            connect(dsn)

    @MODES
    def test_a_pool_in_session_mode_is_as_good_as_none(self, stack: Stack, keyed: Maker, merge: Merge) -> None:
        shop = keyed(merge)
        with (
            bouncer(stack, "session", 4) as dsn,
            closing(through(shop, dsn)) as one,
            closing(through(shop, dsn)) as two,
        ):
            for at, store in enumerate((one, two)):
                shop.store = store
                for start in range(0, 20, 2):
                    assert shop.write(start, [(1 + at, f"{start}"), (1 + at, "again")], partition=at).rows == 2
        assert shop.table() == ({1: "again", 2: "again"} if merge is UPSERT else {1: "0", 2: "0"})

    def test_a_pool_in_session_mode_without_room_does_not_hold_the_login_up_for_ever(
        self, stack: Stack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(own_session, "PROBE_SECONDS", 0.2)
        with bouncer(stack, "session", 1) as dsn, closing(connect(dsn)) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)

    @pytest.mark.usefixtures("unlucky")
    def test_where_it_does_not_show_at_the_login_it_shows_before_anything_is_merged(
        self, stack: Stack, keyed: Maker
    ) -> None:
        shop = keyed(UPSERT)
        with (
            bouncer(stack, "transaction", 1) as dsn,
            closing(through(shop, dsn)) as one,
            closing(through(shop, dsn)) as two,
            pytest.raises(Usage, match="pool_mode = session"),
        ):
            both_staged(shop, [one, two])
        assert shop.table() == {}

    @pytest.mark.usefixtures("unlucky")
    def test_control_without_the_look_somebody_elses_rows_are_merged(
        self, stack: Stack, keyed: Maker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        shop = keyed(UPSERT)
        monkeypatch.setattr(own_session, "_mark", lambda _: None)
        with (
            bouncer(stack, "transaction", 1) as dsn,
            closing(through(shop, dsn)) as one,
            closing(through(shop, dsn)) as two,
        ):
            both_staged(shop, [one, two])
        assert shop.table() == {1: "of 1"}  # the other one's are lost, and nobody was told

    def test_readers_may_use_any_pool_that_has_transactions(self, stack: Stack, keyed: Maker) -> None:
        shop = keyed(UPSERT)
        shop.write(0, [(1, "a")])
        with bouncer(stack, "transaction", 1) as dsn:
            for _ in range(3):
                with reader(dsn) as connection:
                    assert connection.execute(f"SELECT v FROM {shop.name}").fetchall() == [("a",)]
                assert positions_seen(shop, dsn) == len(shop.tenure.positions)

    def test_nothing_of_ours_is_left_in_the_sessions_of_others(self, stack: Stack) -> None:
        with bouncer(stack, "transaction", 2) as dsn, psycopg.connect(dsn, autocommit=True) as neighbour:
            before = neighbour.execute("SELECT name, setting FROM pg_settings ORDER BY 1").fetchall()
            for _ in range(3):
                with pytest.raises(Usage):
                    connect(dsn)
            assert neighbour.execute("SELECT name, setting FROM pg_settings ORDER BY 1").fetchall() == before
