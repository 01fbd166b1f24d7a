"""What became of each event, by its number."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from fencepost.model import Outcome
from fencepost.producing.delivery_reports import PENDING, DeliveryReport, DeliveryReports, Settled, runs

ACKED = DeliveryReport(Outcome.ACKED)
REFUSED = DeliveryReport(Outcome.REFUSED, "too large")
UNKNOWN = DeliveryReport(Outcome.UNKNOWN, "timed out")
ABORTED = DeliveryReport(Outcome.ABORTED, "aborted")


def test_an_event_without_an_answer_is_unknown() -> None:
    reports = DeliveryReports()
    reports.sent(1, 3)
    assert reports.report(2) == PENDING
    assert reports.report(2).outcome is Outcome.UNKNOWN


def test_what_did_not_fail_is_settled_with_the_others_in_ranges() -> None:
    reports = DeliveryReports()
    reports.sent(1, 500)
    reports.fail(481, REFUSED)
    reports.fail(1, UNKNOWN)
    assert reports.settle(ACKED) == [
        Settled(1, 1, UNKNOWN),
        Settled(2, 480, ACKED),
        Settled(481, 481, REFUSED),
        Settled(482, 500, ACKED),
    ]
    assert [reports.report(number) for number in (1, 2, 481, 500, 501)] == [UNKNOWN, ACKED, REFUSED, ACKED, PENDING]
    assert reports.totals.outcomes == {Outcome.ACKED: 498, Outcome.REFUSED: 1, Outcome.UNKNOWN: 1}
    assert not reports.totals.all_acked


def test_answers_settle_the_events_before_the_first_that_still_waits() -> None:
    reports = DeliveryReports()
    reports.sent(1, 4)
    reports.ack(1)
    reports.ack(4)
    reports.fail(2, REFUSED)
    assert reports.settle_answered() == [Settled(1, 1, ACKED), Settled(2, 2, REFUSED)]
    assert [reports.report(number) for number in (3, 4)] == [PENDING, ACKED]
    reports.ack(3)
    assert reports.settle_answered() == [Settled(3, 4, ACKED)]
    assert reports.settle_answered() == []


def test_an_event_that_is_sent_again_after_an_abort_has_its_last_fate() -> None:
    reports = DeliveryReports()
    reports.sent(1, 10)
    reports.settle(ABORTED)
    assert reports.report(7) == ABORTED
    reports.sent(1, 10)
    assert reports.report(7) == PENDING
    reports.settle(ACKED)
    assert reports.report(7) == ACKED


def test_of_a_settled_event_nothing_new_is_learnt() -> None:
    reports = DeliveryReports()
    reports.sent(1, 2)
    reports.settle(ACKED)
    reports.fail(1, UNKNOWN)
    assert reports.report(1) == ACKED


def test_memory_does_not_grow_with_events_that_fared_alike() -> None:
    reports = DeliveryReports()
    for first in range(1, 100_001, 1000):
        reports.sent(first, first + 999)
        reports.settle(ACKED)
    assert len(reports._settled) == 1


@given(st.lists(st.sampled_from([ACKED, REFUSED, UNKNOWN]), min_size=1, max_size=60), st.data())
def test_every_event_keeps_its_own_fate_in_whatever_order_the_answers_come(
    fates: list[DeliveryReport], data: st.DataObject
) -> None:
    reports = DeliveryReports()
    reports.sent(1, len(fates))
    for at in data.draw(st.permutations(range(len(fates)))):
        if fates[at] is ACKED:
            reports.ack(at + 1)
        else:
            reports.fail(at + 1, fates[at])
        if data.draw(st.booleans()):
            reports.settle_answered()
    reports.settle_answered()
    assert [reports.report(number) for number in range(1, len(fates) + 1)] == fates
    assert reports.totals.outcomes.total() == len(fates)


@given(st.sets(st.integers(1, 60)))
def test_runs_cover_exactly_the_numbers(numbers: set[int]) -> None:
    ordered = sorted(numbers)
    parts = list(runs(ordered))
    assert [number for first, last in parts for number in range(first, last + 1)] == ordered
    assert all(last + 1 < first for (_, last), (first, _) in itertools.pairwise(parts))
