"""The comparison counts copies, not sets, and names each anomaly."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from fencepost.audit.compare import Verdict, compare_log, compare_sink
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.model import Outcome

IDS = st.lists(st.integers(0, 8), max_size=20)
SENT = st.dictionaries(st.integers(0, 8), st.sampled_from(list(Outcome)))


def codes(findings: object) -> list[tuple[str, object, int]]:
    return [(finding.code.value, finding.id, finding.times) for finding in findings]  # type: ignore[attr-defined]


def test_everything_once_holds_under_every_word() -> None:
    result = compare_sink(range(100), range(100))
    assert (result.expected, result.landed, result.lost, result.duplicated, result.phantom) == (
        100,
        100,
        0,
        0,
        0,
    )
    assert {result.verdict(guarantee) for guarantee in Guarantee} == {Verdict.HOLDS}


def test_a_hole_a_copy_and_a_stranger_are_named_even_when_the_counts_agree() -> None:
    result = compare_sink(["a", "b", "c"], ["a", "a", "x"])
    assert result.expected == result.landed == 3
    assert codes(result.findings) == [("D2", "a", 2), ("L2", "b", 0), ("L2", "c", 0), ("P", "x", 1)]
    assert (result.lost, result.duplicated, result.phantom) == (2, 1, 1)


def test_three_copies_are_two_too_many() -> None:
    assert compare_sink([1], [1, 1, 1]).duplicated == 2


def test_an_event_that_stands_twice_in_the_log_is_two_events_to_the_sink() -> None:
    assert compare_sink([1, 1], [1, 1]).findings == []
    assert compare_sink([1, 1], [1]).lost == 1


def test_the_first_hop_by_what_the_sender_was_told() -> None:
    told = {"acked": Outcome.ACKED, "gone": Outcome.ACKED, "no": Outcome.REFUSED, "aborted": Outcome.ABORTED}
    result = compare_log(told, ["acked", "acked", "no", "aborted", "stranger"])
    assert codes(result.findings) == [
        ("D1", "acked", 2),
        ("L1", "gone", 0),
        ("P", "no", 1),
        ("G1a", "aborted", 1),
        ("P", "stranger", 1),
    ]


def test_an_unknown_send_may_be_there_once_or_not_at_all() -> None:
    assert compare_log({1: Outcome.UNKNOWN}, []).findings == []
    assert compare_log({1: Outcome.UNKNOWN}, [1]).findings == []
    assert compare_log({1: Outcome.UNKNOWN}, [1, 1]).duplicated == 1


def test_each_word_allows_its_own_anomaly_and_no_other() -> None:
    hole, copy, stranger = compare_sink([1], []), compare_sink([1], [1, 1]), compare_sink([], [1])
    verdicts = {word: [r.verdict(word).value for r in (hole, copy, stranger)] for word in Guarantee}
    assert verdicts == {
        Guarantee.AT_MOST_ONCE: ["holds", "broken", "broken"],
        Guarantee.AT_LEAST_ONCE: ["broken", "holds", "broken"],
        Guarantee.EXACTLY_ONCE: ["broken", "broken", "broken"],
    }


@given(IDS, IDS)
def test_the_books_balance(log: list[int], sink: list[int]) -> None:
    result = compare_sink(log, sink)
    assert result.landed == result.expected - result.lost + result.duplicated + result.phantom


@given(IDS, IDS)
def test_nothing_is_found_exactly_when_both_sides_hold_the_same(log: list[int], sink: list[int]) -> None:
    assert (compare_sink(log, sink).findings == []) == (Counter(log) == Counter(sink))


@given(SENT, IDS)
def test_the_books_of_the_first_hop_balance(sent: dict[int, Outcome], log: list[int]) -> None:
    result = compare_log(sent, log)
    unknown = sum(1 for id_, outcome in sent.items() if outcome is Outcome.UNKNOWN and id_ in log)
    aborted = sum(finding.times for finding in result.findings if finding.code is Anomaly.ABORTED_READ)
    balance = result.expected - result.lost + result.duplicated + result.phantom + unknown + aborted
    assert result.landed == balance
