"""What the proxy reads of PostgreSQL's wire: who connects, which statement runs, which answer is whose."""

from __future__ import annotations

import pytest

from fencepost.lab.proxy.link import Exchange
from fencepost.lab.proxy.postgres import Message, Session, application_name, leading_keyword
from fencepost.lab.proxy.postgres_link import Cycle, Cycles


@pytest.mark.parametrize(
    ("sql", "keyword"),
    [
        (b"COMMIT\0", "COMMIT"),
        (b"  \n\tcommit;\0", "COMMIT"),
        (b"-- why\nCOMMIT\0", "COMMIT"),
        (b"/* a\nb */ /* c */COMMIT AND CHAIN\0", "COMMIT"),
        (b"(SELECT 1) UNION SELECT 2\0", "SELECT"),
        (b"; INSERT INTO t VALUES ('COMMIT')\0", "INSERT"),
        (b"-- COMMIT\0", ""),
        (b"/* COMMIT", ""),
        (b"\0", ""),
        (b"", ""),
    ],
)
def test_a_statement_is_told_by_its_leading_keyword(sql: bytes, keyword: str) -> None:
    assert leading_keyword(sql) == keyword


def test_the_application_name_is_read_from_the_startup_message() -> None:
    def startup(*fields: bytes) -> bytes:
        return b"\0\0\0\0\0\x03\0\0" + b"".join(field + b"\0" for field in fields) + b"\0"

    assert application_name(startup(b"user", b"me", b"application_name", b"orders")) == "orders"
    assert application_name(startup(b"user", b"application_name", b"database", b"db")) == ""
    assert application_name(startup()) == ""


class TestSession:
    def test_a_named_statement_is_known_when_it_runs_later(self) -> None:
        session = Session()
        assert session.statement(Message.PARSE, b"s1\0COMMIT\0\0\0") == ""
        assert session.statement(Message.PARSE, b"s2\0INSERT INTO t VALUES ($1)\0\0\0") == ""
        assert session.statement(Message.BIND, b"p1\0s1\0\0\0\0\0\0\0") == ""
        assert session.statement(Message.BIND, b"\0s2\0\0\0\0\0\0\0") == ""
        assert session.statement(Message.EXECUTE, b"\0\0\0\0\0") == "INSERT"
        assert session.statement(Message.EXECUTE, b"p1\0\0\0\0\0") == "COMMIT"

    def test_what_was_closed_is_forgotten(self) -> None:
        session = Session()
        session.statement(Message.PARSE, b"s1\0COMMIT\0\0\0")
        session.statement(Message.BIND, b"p1\0s1\0\0\0")
        session.statement(Message.CLOSE, b"Pp1\0")
        assert session.statement(Message.EXECUTE, b"p1\0\0\0\0\0") == ""
        session.statement(Message.CLOSE, b"Ss1\0")
        session.statement(Message.BIND, b"p1\0s1\0\0\0")
        assert session.statement(Message.EXECUTE, b"p1\0\0\0\0\0") == ""

    def test_the_unnamed_statement_is_replaced(self) -> None:
        session = Session()
        for sql, keyword in ((b"COMMIT", "COMMIT"), (b"SELECT 1", "SELECT")):
            session.statement(Message.PARSE, b"\0" + sql + b"\0\0\0")
            session.statement(Message.BIND, b"\0\0\0\0")
            assert session.statement(Message.EXECUTE, b"\0\0\0\0\0") == keyword


class TestCycles:
    def test_the_answers_of_pipelined_queries_come_in_order(self) -> None:
        cycles = Cycles()
        first = asked(cycles, Message.QUERY)
        second = asked(cycles, Message.PARSE, Message.BIND, Message.EXECUTE, Message.SYNC)
        assert cycles.answering is first
        cycles.ready()
        assert cycles.answering is second

    def test_a_message_that_is_flushed_is_answered_before_its_sync(self) -> None:
        cycles = Cycles()
        open_one = asked(cycles, Message.PARSE, Message.FLUSH)
        assert cycles.answering is open_one
        assert asked(cycles, Message.SYNC) is open_one

    def test_the_end_of_a_copy_belongs_to_the_query_that_began_it(self) -> None:
        cycles = Cycles()
        copy = asked(cycles, Message.QUERY)
        cycles.copy_began()
        assert cycles.of(Message.COPY_DONE) is copy
        asked(cycles, Message.COPY_DONE)
        cycles.ready()
        assert cycles.answering is not copy

    def test_the_first_sync_of_an_extended_copy_is_owed_no_answer(self) -> None:
        cycles = Cycles()
        copy = asked(cycles, Message.PARSE, Message.BIND, Message.EXECUTE, Message.SYNC)
        cycles.copy_began()
        assert cycles.of(Message.COPY_DONE) is copy
        asked(cycles, Message.COPY_DONE)
        assert asked(cycles, Message.SYNC) is copy
        after = asked(cycles, Message.QUERY)
        cycles.ready()
        assert cycles.answering is after

    def test_rules_of_both_syncs_of_an_extended_copy_are_kept(self) -> None:
        cycles = Cycles()
        asked(cycles, Message.EXECUTE, Message.SYNC)
        late = Exchange(None, None)
        cycles.of(Message.EXECUTE).exchanges.append(late)
        cycles.copy_began()
        assert cycles.answering.exchanges == [late]


def asked(cycles: Cycles, *messages: Message) -> Cycle:
    """Sends the messages; returns the cycle of the last."""
    for message in messages:
        cycle = cycles.of(message)
        cycles.sent(message)
    return cycle
