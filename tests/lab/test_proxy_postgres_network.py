"""PostgreSQL behind the proxy when the network as a whole fails, and when nothing does."""

from __future__ import annotations

import os
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor

import psycopg
import pytest
from psycopg import Connection, sql
from psycopg.conninfo import make_conninfo

from fencepost.lab.proxy import Action, Block, Direction, Message, Rule, Statement
from lab.database import APPLICATION, Database, await_that


class TestListener:
    def test_a_cut_resets_every_connection(self, database: Database) -> None:
        connections = [database.connect(autocommit=True) for _ in range(2)]
        database.proxy.cut("db")
        for connection in connections:
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        await_that(lambda: database.sessions() == 0)
        database.connect().close()

    def test_refused_connections_are_reset_until_unblocked(self, database: Database) -> None:
        connection = database.connect(autocommit=True)
        database.proxy.block("db", Block.REFUSE)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError):
            database.connect()
        database.proxy.unblock("db")
        database.connect().close()

    def test_in_a_black_hole_a_new_connection_times_out(self, database: Database) -> None:
        database.proxy.block("db")
        with pytest.raises(psycopg.errors.ConnectionTimeout):
            database.connect(connect_timeout=2)
        database.proxy.unblock("db")
        database.connect().close()

    @pytest.mark.parametrize("direction", [None, Direction.REQUEST])
    def test_a_blocked_request_does_not_arrive_before_it_is_unblocked(
        self, database: Database, background: ThreadPoolExecutor, direction: Direction | None
    ) -> None:
        connection = database.connect(autocommit=True)
        database.proxy.block("db", direction=direction)
        waiting: Future[None] = background.submit(database.insert, connection)
        await_that(lambda: database.proxy.seen()["db", "INSERT"] == 1)
        assert database.rows() == []
        database.proxy.unblock("db")
        waiting.result(10)
        assert database.rows() == [1]

    def test_with_responses_blocked_the_request_arrives_and_the_answer_does_not(
        self, database: Database, background: ThreadPoolExecutor
    ) -> None:
        connection = database.connect(autocommit=True)
        database.proxy.block("db", direction=Direction.RESPONSE)
        waiting = background.submit(database.insert, connection)
        database.await_rows([1])
        assert not waiting.done()
        database.proxy.unblock("db")
        waiting.result(10)


class TestPassingThrough:
    def test_encryption_is_declined_and_not_asked_for_it_is_no_error(self, database: Database) -> None:
        database.connect(sslmode="prefer").close()
        assert database.proxy.seen()["db", "malformed"] == 0
        with pytest.raises(psycopg.OperationalError):
            database.connect(sslmode="require")

    def test_a_cancel_request_reaches_the_server(self, database: Database, background: ThreadPoolExecutor) -> None:
        connection = database.connect(autocommit=True)
        waiting = background.submit(connection.execute, "SELECT pg_sleep(60)")
        await_that(lambda: database.proxy.seen()["db", "SELECT"] == 1)
        while not waiting.done():
            connection.cancel_safe()
        assert isinstance(waiting.exception(10), psycopg.errors.QueryCanceled)
        assert database.proxy.seen()["db", Message.CANCEL] >= 1

    def test_what_the_server_says_before_it_goes_reaches_the_client(self, database: Database) -> None:
        connection = database.connect(autocommit=True)
        with psycopg.connect(database.direct) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [connection.info.backend_pid])
        with pytest.raises(psycopg.errors.AdminShutdown):
            connection.execute("SELECT 1")

    def test_so_does_an_answer_that_a_rule_waits_for_in_vain(
        self, database: Database, background: ThreadPoolExecutor
    ) -> None:
        connection = database.connect(autocommit=True)
        rule = database.proxy.add(Rule(action=Action.RESET, direction=Direction.RESPONSE, request=Statement("SELECT")))
        waiting = background.submit(connection.execute, "SELECT pg_sleep(60)")
        await_that(lambda: database.proxy.seen()["db", "SELECT"] == 1)
        with psycopg.connect(database.direct) as other:
            other.execute("SELECT pg_terminate_backend(%s, 5000)", [connection.info.backend_pid])
        assert isinstance(waiting.exception(10), psycopg.errors.AdminShutdown)
        assert database.proxy.witness(rule) == (0, 0)

    def test_a_refused_password_is_told(self, database: Database) -> None:
        with pytest.raises(psycopg.OperationalError) as refused:
            psycopg.connect(make_conninfo(database.dsn, password="wrong"))  # noqa: S106
        assert refused.value.pgconn
        await_that(lambda: database.proxy.connections("db") == 0)

    def test_a_large_result_arrives_whole(self, database: Database) -> None:
        with database.connect() as connection:
            found = connection.execute("SELECT n, repeat('x', n % 500) FROM generate_series(1, 50000) n")
            assert sum(len(text) for _, text in found) == sum(n % 500 for n in range(1, 50_001))

    def test_a_delay_takes_its_time(self, database: Database) -> None:
        connection = database.connect(autocommit=True)
        rule = database.proxy.add(
            Rule(action=Action.DELAY, ms=300, request=Statement("INSERT"), direction=Direction.RESPONSE, count=1)
        )
        begin = time.monotonic()
        database.insert(connection)
        assert time.monotonic() - begin >= 0.3
        assert database.proxy.witness(rule) == (1, 1)

    def test_the_skipped_ones_and_other_clients_pass(self, database: Database) -> None:
        rule = database.proxy.add(Rule(action=Action.RESET, request=Statement("INSERT"), client=APPLICATION, skip=2))
        with psycopg.connect(make_conninfo(database.dsn, application_name="other")) as other:
            database.insert(other, 9)
        with database.connect(autocommit=True) as connection:
            database.insert(connection, 1)
            database.insert(connection, 2)
            with pytest.raises(psycopg.OperationalError):
                database.insert(connection, 3)
        assert database.proxy.witness(rule) == (1, 1)
        assert database.rows() == [1, 2, 9]

    def test_every_answer_can_be_taken_that_of_the_startup_too(self, database: Database) -> None:
        rule = database.proxy.add(Rule(action=Action.DELAY, ms=1, direction=Direction.RESPONSE))
        with database.connect(autocommit=True) as connection:
            database.insert(connection)
            connection.execute("SELECT %s", [1])
        assert database.proxy.witness(rule) == (3, 3)

    def test_a_client_gone_in_mid_copy_leaves_no_session_behind(self, database: Database) -> None:
        rule = database.proxy.add(Rule(action=Action.FORWARD, request=Statement("COPY")))
        connection = database.connect()
        statement = sql.SQL("COPY {} FROM STDIN").format(database.table)
        with pytest.raises(psycopg.OperationalError):
            copy_and_vanish(connection, statement)
        await_that(lambda: database.sessions() == 0)
        assert database.proxy.witness(rule) == (1, 0)


def copy_and_vanish(connection: Connection, statement: sql.Composed) -> None:
    """As a process does that dies: no Terminate, no CopyFail."""
    with connection.cursor().copy(statement) as copy:
        copy.write(b"1\n")
        with socket.socket(fileno=os.dup(connection.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)
