"""The line to PostgreSQL breaks at one message: a COMMIT without an answer, a COPY that is cut in the middle."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.errors import Fenced, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.lab.proxy import Action, Direction, Message, Protocol, Proxy, Rule, RuleId, Statement
from fencepost.local import Stack
from fencepost.machine import process
from sweep.arena import DOUBLED, LOST, NOTHING, PATIENCE, Arena, Ended
from sweep.work import PART, SPAN, Naive, Work

EXACTLY_ONCE = Guarantee.EXACTLY_ONCE
COMMIT = Statement("COMMIT")

# Rules that hit in the second span of a fenced writer, whose takeover has a COMMIT too
SWALLOWED = Rule(action=Action.RESET, direction=Direction.RESPONSE, request=COMMIT, skip=2, count=1)  # it is done
CUT = Rule(action=Action.RESET, request=COMMIT, skip=2, count=1)  # the server never sees it
LATE = Rule(action=Action.HOLD_DETACH, request=COMMIT, skip=2, count=1)  # the server sees it later
COPY_CUT = Rule(action=Action.RESET, request=Message.COPY_DATA, after_bytes=7 * SPAN, skip=1, count=1)  # half a span
NAIVE_CUT = replace(COPY_CUT, after_bytes=1000, skip=SPAN // PART + 2)  # a COPY for each record batch


class Line(NamedTuple):
    """A proxy before the database, and the way through it."""

    proxy: Proxy
    dsn: str

    def add(self, rule: Rule) -> RuleId:
        return self.proxy.add(rule)

    def has_hit(self, rule: RuleId) -> bool:
        return self.proxy.witness(rule).hits == 1


@pytest.fixture
def line(stack: Stack) -> Iterator[Line]:
    there = conninfo_to_dict(stack.dsn)
    with Proxy() as proxy:
        target = (str(there["host"]), int(str(there["port"])))
        port = proxy.listen("db", target=target, protocol=Protocol.POSTGRES)
        yield Line(proxy, make_conninfo(stack.dsn, port=port))


def run_with(fault: Rule, arena: Arena, line: Line, work: Work) -> Ended:
    """The process's whole life over a line with this fault, which is seen to have fired."""
    rule = line.add(fault)
    ended = arena.run(replace(work, settings=replace(work.settings, dsn=line.dsn)))
    assert line.has_hit(rule), ended
    return ended


each_way = pytest.mark.parametrize(("fault", "landed"), [(SWALLOWED, 2 * SPAN), (CUT, SPAN)], ids=["swallowed", "cut"])


class TestCommitWithoutAnAnswer:
    @each_way
    def test_one_error_has_two_outcomes_and_a_new_process_goes_on_rightly(
        self, arena: Arena, line: Line, fault: Rule, landed: int
    ) -> None:
        ended = run_with(fault, arena, line, arena.work(EXACTLY_ONCE, renews=False, asks=False))
        assert (ended.code, ended.troubles) == (Unknown.exit_code, ["Unknown"])
        assert len(arena.landed()) == landed
        assert arena.run(arena.work(EXACTLY_ONCE)).code == 0
        assert arena.lost_and_doubled() == NOTHING

    @each_way
    def test_the_same_process_looks_at_the_position_and_goes_on_rightly(
        self, arena: Arena, line: Line, fault: Rule, landed: int
    ) -> None:
        ended = run_with(fault, arena, line, arena.work(EXACTLY_ONCE))
        assert ended.code == 0, ended.errors
        assert ended.troubles == ([] if fault is SWALLOWED else ["Unknown"])
        assert arena.lost_and_doubled() == NOTHING

    @pytest.mark.parametrize("renews", [True, False], ids=["the same process", "a new process"])
    def test_a_commit_that_arrives_late_finds_its_transaction_gone(
        self, arena: Arena, line: Line, renews: bool
    ) -> None:
        rule = line.add(LATE)
        ended = arena.run(arena.work(EXACTLY_ONCE, dsn=line.dsn, renews=renews))
        assert ended.troubles == ["Unknown"]
        assert ended.code == (0 if renews else Unknown.exit_code), ended.errors
        if not renews:
            assert arena.run(arena.work(EXACTLY_ONCE)).code == 0
        assert line.has_hit(rule)
        line.proxy.release(rule)
        assert process.until(lambda: line.proxy.connections("db") == 0, PATIENCE)
        assert arena.lost_and_doubled() == NOTHING

    def test_control_who_tries_again_blindly_doubles(self, arena: Arena, line: Line) -> None:
        ended = run_with(replace(SWALLOWED, skip=1), arena, line, arena.work(Naive.RETRY))
        assert (ended.code, ended.troubles) == (0, ["OperationalError"])
        assert arena.lost_and_doubled() == DOUBLED

    def test_control_who_takes_it_for_done_loses(self, arena: Arena, line: Line) -> None:
        ended = run_with(replace(CUT, skip=1), arena, line, arena.work(Naive.GIVE_UP))
        assert (ended.code, ended.troubles) == (0, ["OperationalError"])
        assert arena.lost_and_doubled() == LOST


class TestCopy:
    def test_cut_in_the_middle_no_row_is_visible(self, arena: Arena, line: Line) -> None:
        ended = run_with(COPY_CUT, arena, line, arena.work(EXACTLY_ONCE, renews=False))
        assert (ended.code, ended.troubles) == (Unreachable.exit_code, ["Unreachable"])
        assert len(arena.landed()) == SPAN
        assert arena.run(arena.work(EXACTLY_ONCE)).code == 0
        assert arena.lost_and_doubled() == NOTHING

    def test_cut_in_the_middle_the_same_process_goes_on(self, arena: Arena, line: Line) -> None:
        ended = run_with(COPY_CUT, arena, line, arena.work(EXACTLY_ONCE))
        assert (ended.code, ended.troubles) == (0, ["Unreachable"]), ended.errors
        assert arena.lost_and_doubled() == NOTHING

    def test_control_a_naive_writer_doubles_what_had_gone_before(self, arena: Arena, line: Line) -> None:
        ended = run_with(NAIVE_CUT, arena, line, arena.work(Naive.AUTOCOMMIT))
        assert (ended.code, ended.troubles) == (0, ["OperationalError"])
        assert arena.lost_and_doubled() == (0, 2 * PART)

    def test_killed_in_the_middle_of_a_copy(self, arena: Arena, line: Line) -> None:
        rule = line.add(replace(COPY_CUT, action=Action.HOLD))
        writer = arena.start(arena.work(EXACTLY_ONCE, dsn=line.dsn))
        line.proxy.wait_hits(rule, timeout=PATIENCE)
        writer.kill()
        assert arena.end(writer).code == -signal.SIGKILL
        assert arena.run(arena.work(EXACTLY_ONCE)).code == 0
        line.proxy.release(rule)
        assert arena.lost_and_doubled() == NOTHING

    def test_a_zombie_in_the_middle_of_a_copy_is_fenced(self, arena: Arena, line: Line) -> None:
        rule = line.add(replace(COPY_CUT, action=Action.HOLD))
        zombie = arena.start(arena.work(EXACTLY_ONCE, dsn=line.dsn))
        line.proxy.wait_hits(rule, timeout=PATIENCE)
        zombie.send_signal(signal.SIGSTOP)
        arena.await_stopped(zombie)
        successor = arena.run(arena.work(EXACTLY_ONCE))
        assert (successor.code, successor.troubles) == (0, []), successor.errors
        line.proxy.release(rule)
        assert arena.wake(zombie).code == Fenced.exit_code
        assert arena.lost_and_doubled() == NOTHING


class TestTakeover:
    def test_one_that_stalls_before_its_commit_does_not_hold_up_the_next(self, arena: Arena, line: Line) -> None:
        rule = line.add(Rule(action=Action.HOLD, request=COMMIT, count=1))
        stalled = arena.start(arena.work(EXACTLY_ONCE, dsn=line.dsn))
        line.proxy.wait_hits(rule, timeout=PATIENCE)
        successor = arena.run(arena.work(EXACTLY_ONCE))
        assert (successor.code, successor.troubles) == (0, []), successor.errors
        line.proxy.release(rule)
        assert arena.end(stalled).code == Unreachable.exit_code
        assert arena.lost_and_doubled() == NOTHING
