"""What a reader of committed records makes of a log, told as a story of batches."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.batch_headers import BatchHeader, Marker
from fencepost.kafka.visibility import Aborted, Visibility, classify, visible_records

COMMIT, ABORT = Marker.COMMIT, Marker.ABORT


def log(*steps: tuple[int | None, int | Marker]) -> list[BatchHeader]:
    """(producer, records) or (producer, marker); without a producer: a plain one."""
    found, offset = [], 0
    for producer, step in steps:
        many = 1 if isinstance(step, Marker) else step
        marker = step if isinstance(step, Marker) else None
        id_ = -1 if producer is None else producer
        found.append(BatchHeader(offset, offset + many - 1, many, id_, 0, 0, producer is not None, marker, 0, 0, 100))
        offset += many
    return found


def marks(found: object) -> str:
    letters = {one: one.value[0] for one in Visibility} | {Visibility.CONTROL: "|"}
    return "".join(letters[one.visibility] for one in found)  # type: ignore[attr-defined]


def test_committed_and_aborted_take_turns() -> None:
    batches = log((1, 3), (1, COMMIT), (1, 2), (1, ABORT), (1, 1), (1, COMMIT), (None, 4))
    assert marks(classify(batches, [Aborted(1, 4)], 99, {})) == "c|a|c|c"


def test_two_producers_between_each_other() -> None:
    batches = log((1, 1), (2, 1), (1, 1), (2, ABORT), (2, 1), (1, COMMIT), (2, COMMIT))
    assert marks(classify(batches, [Aborted(2, 1)], 99, {})) == "cac|c||"


def test_one_that_was_aborted_before_what_was_fetched_began() -> None:
    batches = [one for one in log((1, 2), (1, 2), (1, ABORT), (1, 1), (1, COMMIT)) if one.first >= 2]
    assert marks(classify(batches, [Aborted(1, 0)], 99, {})) == "a|c|"


def test_an_open_transaction_holds_back_what_is_committed_behind_it() -> None:
    batches = log((1, 2), (None, 1), (2, 1), (2, COMMIT), (3, 1), (3, ABORT))
    found = classify(batches, [], 0, {1: 0})
    assert marks(found) == "occ|a|"
    assert [one.held for one in found] == [False, True, True, False, False, False]


def test_the_same_producer_ended_one_and_opened_the_next() -> None:
    batches = log((9, 1), (1, 1), (1, ABORT), (1, 1))
    assert marks(classify(batches, [], 0, {9: 0, 1: 3})) == "oa|o"


def test_a_marker_beyond_what_was_read_is_looked_for_ahead() -> None:
    whole = log((9, 1), (1, 1), (1, COMMIT))
    assert marks(classify(whole[:2], [], 0, {9: 0})) == "ou"
    assert marks(classify(whole[:2], [], 0, {9: 0}, whole[2:])) == "oc"


def test_lag_counts_no_markers_and_nothing_aborted() -> None:
    batches = log((1, 3), (1, COMMIT), (1, 2), (1, ABORT), (None, 4))
    found = classify(batches, [Aborted(1, 4)], 99, {})
    assert visible_records(found, 0, 11) == 7
    assert visible_records(found, 3, 7) == 0
    assert visible_records(found, 2, 9) == 3


HISTORY = st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["write", "commit", "abort"])), max_size=30)


@given(HISTORY)
def test_it_agrees_with_what_really_happened(history: list[tuple[int, str]]) -> None:
    """Whatever producers do: each record is what its transaction became, wherever the last stable offset is."""
    steps: list[tuple[int | None, int | Marker]] = []
    began: dict[int, int] = {}
    ends: dict[int, str] = {}
    pending: dict[int, list[int]] = {}
    aborted = []
    for producer, act in history:
        offset = len(steps)
        if act == "write":
            began.setdefault(producer, offset)
            pending.setdefault(producer, []).append(offset)
            steps.append((producer, 1))
        elif producer in began:
            steps.append((producer, COMMIT if act == "commit" else ABORT))
            ends |= dict.fromkeys(pending.pop(producer), "committed" if act == "commit" else "aborted")
            first = began.pop(producer)
            if act == "abort":
                aborted.append(Aborted(producer, first))
    stable = min(began.values(), default=len(steps))
    known = [one for one in aborted if one.first < stable]
    for one in classify(log(*steps), known, stable, began):
        if one.visibility is not Visibility.CONTROL:
            assert one.visibility.value == ends.get(one.batch.first, "open")
