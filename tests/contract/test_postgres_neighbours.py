"""Upsert and dedupe beside somebody else who writes into the same table."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from contract.keyed import DEDUPE, UPSERT, Maker
from fencepost.local import Stack
from fencepost.machine.process import until
from fencepost.model import Landed, Merge
from fencepost.sinks.postgres.connection import Connection, writer_name


def waiting(connection: Connection, name: str, what: str = "") -> bool:
    """Does a writer of the pipeline wait for somebody's lock, in such a statement?"""
    query = """SELECT 1 FROM pg_stat_activity
               WHERE application_name = %s AND wait_event_type = 'Lock' AND starts_with(query, %s)"""
    return connection.execute(query, (writer_name(name, f"{name}_own"), what)).fetchone() is not None


def test_while_a_copy_waits_for_somebody_the_other_threads_go_on(keyed: Maker, stack: Stack) -> None:
    """Libpq's own wait would hold them: this one would see the merge that comes after the COPY was given up."""
    shop = keyed(UPSERT)
    with psycopg.connect(stack.dsn) as other, ThreadPoolExecutor() as pool:
        other.execute(f"INSERT INTO {shop.name} (id, v) VALUES (1, 'theirs')")
        ours = pool.submit(shop.write, 0, [(1, "ours")])
        seen = until(lambda: waiting(shop.connection, shop.name, "COPY"), 20)
        other.commit()
        ours.result(20)
    assert seen


@pytest.mark.parametrize(("merge", "value"), [(UPSERT, "ours"), (DEDUPE, "theirs")])
def test_a_key_that_somebody_makes_at_the_same_moment_is_merged_with(
    keyed: Maker, stack: Stack, merge: Merge, value: str
) -> None:
    shop = keyed(merge)
    with psycopg.connect(stack.dsn) as other, ThreadPoolExecutor() as pool:
        other.execute(f"INSERT INTO {shop.name} (id, v) VALUES (1, 'theirs')")
        ours = pool.submit(shop.write, 0, [(0, "a"), (1, "ours"), (2, "c")])
        assert until(lambda: waiting(shop.connection, shop.name), 20)
        other.commit()
        assert ours.result(20) == Landed(rows=3)
    assert shop.table() == {0: "a", 1: value, 2: "c"}


def test_a_deadlock_with_somebody_elses_order_of_keys_is_not_heard_of(keyed: Maker, stack: Stack) -> None:
    shop = keyed(UPSERT)
    shop.write(0, [(1, "a"), (2, "b")])
    with psycopg.connect(stack.dsn) as other, ThreadPoolExecutor() as pool:
        other.execute("SET deadlock_timeout = '1min'")  # so that it is ours that finds out, and is ended
        other.execute(f"UPDATE {shop.name} SET v = 'theirs' WHERE id = 2")
        before = deadlocks(shop.connection)
        ours = pool.submit(shop.write, 2, [(2, "d"), (1, "c")])
        assert until(lambda: waiting(shop.connection, shop.name), 20)
        other.execute(f"UPDATE {shop.name} SET v = 'theirs' WHERE id = 1")
        other.commit()
        assert ours.result(20) == Landed(rows=2)
    assert shop.table() == {1: "c", 2: "d"}
    assert until(lambda: deadlocks(shop.connection) > before, 20)  # it fired


def deadlocks(connection: Connection) -> int:
    (found,) = connection.execute(
        "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"
    ).fetchone() or (0,)
    return int(found)
