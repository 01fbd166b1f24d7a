"""The proxy between psycopg and a real PostgreSQL: a fault hits the statement it names, in either protocol."""

from __future__ import annotations

import select
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.pq import ExecStatus
from psycopg.pq.abc import PGconn

from fencepost.lab.proxy import Action, Direction, Message, Rule, Statement
from lab.database import APPLICATION, Database, await_that

COMMIT = Statement("COMMIT")


def by_simple_query(connection: Connection) -> None:
    connection.commit()


def by_extended_query(connection: Connection) -> None:
    connection.execute("COMMIT", binary=True)


def by_prepared_statement(connection: Connection) -> None:
    connection.execute("COMMIT", prepare=True)


def by_pipeline(connection: Connection) -> None:
    with connection.pipeline():
        connection.commit()


Commit = Callable[[Connection], None]
WAYS: dict[Commit, Message] = {
    by_simple_query: Message.QUERY,
    by_extended_query: Message.EXECUTE,
    by_prepared_statement: Message.EXECUTE,
    by_pipeline: Message.EXECUTE,
}
every_way = pytest.mark.parametrize("commit", WAYS)


def prepared(database: Database, commit: Commit) -> Connection:
    """A connection that has committed once in this way already, so that a named statement is only bound."""
    connection = database.connect()
    connection.execute("SELECT 1")
    commit(connection)
    seen = database.proxy.seen()
    assert seen["db", "COMMIT"] == 1
    assert seen["db", WAYS[commit]] >= 1
    return connection


class TestCommitWithoutAnAnswer:
    @every_way
    def test_swallowed_reply_the_row_is_there_and_the_client_cannot_know(
        self, database: Database, commit: Commit
    ) -> None:
        connection = prepared(database, commit)
        rule = database.proxy.add(
            Rule(action=Action.RESET, direction=Direction.RESPONSE, request=COMMIT, client=APPLICATION, count=1)
        )
        database.insert(connection)
        with pytest.raises(psycopg.OperationalError):
            commit(connection)
        assert database.proxy.witness(rule) == (1, 1)
        assert database.rows() == [1]

    @every_way
    def test_cut_before_forwarding_the_row_is_not_there_and_the_error_is_the_same(
        self, database: Database, commit: Commit
    ) -> None:
        connection = prepared(database, commit)
        rule = database.proxy.add(Rule(action=Action.RESET, request=COMMIT, client=APPLICATION, count=1))
        database.insert(connection)
        with pytest.raises(psycopg.OperationalError):
            commit(connection)
        assert database.proxy.witness(rule) == (1, 1)
        await_that(lambda: database.sessions() == 0)
        assert database.rows() == []

    @every_way
    def test_held_and_detached_it_arrives_late(self, database: Database, commit: Commit) -> None:
        connection = prepared(database, commit)
        rule = database.proxy.add(Rule(action=Action.HOLD_DETACH, request=COMMIT, count=1))
        database.insert(connection)
        with pytest.raises(psycopg.OperationalError):
            commit(connection)
        assert database.proxy.wait_hits(rule) == (1, 0)
        assert database.sessions() == 1
        assert database.rows() == []
        database.proxy.release(rule)
        assert database.proxy.wait_done(rule) == (1, 1)
        assert database.rows() == [1]
        await_that(lambda: database.proxy.connections("db") == 0)
        await_that(lambda: database.sessions() == 0)

    @every_way
    def test_dropped_the_client_waits_for_ever(
        self, database: Database, commit: Commit, background: ThreadPoolExecutor
    ) -> None:
        connection = prepared(database, commit)
        rule = database.proxy.add(Rule(action=Action.DROP, request=COMMIT, count=1))
        database.insert(connection)
        waiting = background.submit(commit, connection)
        assert database.proxy.wait_done(rule) == (1, 1)
        assert database.rows() == []
        assert not waiting.done()
        database.proxy.cut("db")
        assert isinstance(waiting.exception(10), psycopg.OperationalError)
        await_that(lambda: database.sessions() == 0)
        assert database.rows() == []


class TestHold:
    @every_way
    def test_a_held_request_goes_on_when_it_is_released(
        self, database: Database, commit: Commit, background: ThreadPoolExecutor
    ) -> None:
        connection = prepared(database, commit)
        rule = database.proxy.add(Rule(action=Action.HOLD, request=COMMIT))
        database.insert(connection)
        waiting = background.submit(commit, connection)
        assert database.proxy.wait_hits(rule) == (1, 0)
        assert database.rows() == []
        assert not waiting.done()
        database.proxy.release(rule)
        waiting.result(10)
        assert database.proxy.witness(rule) == (1, 1)
        assert database.rows() == [1]
        commit(connection)
        assert database.proxy.witness(rule) == (1, 1)

    @every_way
    def test_a_held_response_shows_that_the_server_was_done(
        self, database: Database, commit: Commit, background: ThreadPoolExecutor
    ) -> None:
        connection = prepared(database, commit)
        rule = database.proxy.add(Rule(action=Action.HOLD, direction=Direction.RESPONSE, request=COMMIT))
        database.insert(connection)
        waiting = background.submit(commit, connection)
        assert database.proxy.wait_hits(rule) == (1, 0)
        assert database.rows() == [1]
        assert not waiting.done()
        database.proxy.clear()
        waiting.result(10)
        assert database.proxy.witness(rule) == (1, 1)

    def test_a_held_request_is_delivered_though_its_client_is_gone(
        self, database: Database, background: ThreadPoolExecutor
    ) -> None:
        connection = database.connect()
        rule = database.proxy.add(Rule(action=Action.HOLD, request=COMMIT))
        database.insert(connection)
        connection.pgconn.send_query(b"COMMIT")
        assert database.proxy.wait_hits(rule) == (1, 0)
        connection.pgconn.finish()
        database.proxy.release(rule)
        assert database.proxy.wait_done(rule) == (1, 1)
        assert database.rows() == [1]
        await_that(lambda: database.proxy.connections("db") == 0)


def next_status(wire: PGconn) -> int | None:
    """The status of the next result. Does not wait inside libpq, which would stop the proxy's thread too."""
    while wire.flush() or wire.is_busy():
        select.select([wire.socket], [], [], 10)
        wire.consume_input()
    result = wire.get_result()
    return result.status if result else None


class TestCopy:
    BLOCK = b"1\n" * 1000

    def copy(self, database: Database, blocks: int = 100) -> None:
        statement = sql.SQL("COPY {} FROM STDIN").format(database.table)
        with database.connect() as connection, connection.cursor().copy(statement) as copy:
            for _ in range(blocks):
                copy.write(self.BLOCK)

    @pytest.mark.parametrize("n", [0, 1, 100_001])
    def test_cut_after_n_bytes_no_row_is_visible(self, database: Database, n: int) -> None:
        rule = database.proxy.add(Rule(action=Action.RESET, request=Message.COPY_DATA, after_bytes=n))
        with pytest.raises(psycopg.OperationalError):
            self.copy(database)
        assert database.proxy.witness(rule) == (1, 1)
        await_that(lambda: database.sessions() == 0)
        assert database.rows() == []

    def test_a_copy_that_is_shorter_passes(self, database: Database) -> None:
        rule = database.proxy.add(
            Rule(action=Action.RESET, request=Message.COPY_DATA, after_bytes=100 * len(self.BLOCK))
        )
        self.copy(database)
        assert database.proxy.witness(rule) == (0, 0)
        assert len(database.rows()) == 100_000

    def test_the_reply_to_the_end_of_a_copy_can_be_lost(self, database: Database) -> None:
        rule = database.proxy.add(Rule(action=Action.RESET, direction=Direction.RESPONSE, request=Message.COPY_DONE))
        with pytest.raises(psycopg.OperationalError):
            self.copy(database, blocks=1)
        assert database.proxy.witness(rule) == (1, 1)

    def test_the_reply_to_the_copy_itself_is_the_one_at_its_end(self, database: Database) -> None:
        rule = database.proxy.add(Rule(action=Action.FORWARD, direction=Direction.RESPONSE, request=Statement("COPY")))
        self.copy(database, blocks=1)
        assert database.proxy.witness(rule) == (1, 1)
        assert len(database.rows()) == 1000

    def test_statements_are_still_told_apart_after_an_extended_copy(self, database: Database) -> None:
        connection = database.connect()
        connection.execute("BEGIN")
        wire = connection.pgconn
        wire.send_query_params(f"COPY {database.table.as_string()} FROM STDIN".encode(), None)
        assert next_status(wire) == ExecStatus.COPY_IN
        wire.put_copy_data(b"1\n")
        wire.put_copy_end()
        assert next_status(wire) == ExecStatus.COMMAND_OK
        assert next_status(wire) is None
        rule = database.proxy.add(Rule(action=Action.RESET, direction=Direction.RESPONSE, request=COMMIT))
        database.insert(connection, 2)
        assert database.proxy.witness(rule) == (0, 0)
        with pytest.raises(psycopg.OperationalError):
            connection.commit()
        assert database.proxy.witness(rule) == (1, 1)
        assert database.rows() == [1, 2]
