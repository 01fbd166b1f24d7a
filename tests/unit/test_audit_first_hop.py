"""Journal against log: what the sender was told decides what may be there. And the log by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.audit import compare
from fencepost.audit.engines.duckdb import DuckEngine, open_duck
from fencepost.audit.engines.engine import table
from fencepost.audit.engines.relations import LOG
from fencepost.audit.findings import Finding, Hop
from fencepost.audit.journal import Journal, read_journals
from fencepost.audit.journal_to_log import check_log, compare_log, doubled_in_log
from fencepost.errors import Usage
from fencepost.guarantee import Anomaly
from fencepost.model import Outcome
from support.drawn import examples
from unit.ranges import each

HEAD = {"journal": 1, "topic": "orders", "producer": "p", "guarantee": "exactly-once"}


@pytest.fixture(scope="module")
def engine() -> Iterator[DuckEngine]:
    with open_duck() as duck:
        yield duck


def put(engine: DuckEngine, name: str, ids: Sequence[str | None], **columns: list[Any]) -> None:
    """A log in one partition, its ids at the offsets 0, 1, ..."""
    size = len(ids)
    rows = zip(
        ["orders"] * size,
        [0] * size,
        range(size),
        ids,
        columns.get("key", [None] * size),
        columns.get("intact", [None] * size),
        [None] * size,
        [False] * size,
        strict=True,
    )
    engine.put(name, table({field.name: field.type for field in LOG}, rows))


def compared(engine: DuckEngine, journal: Journal, log: Sequence[str | None], aborted: Sequence[str] = ()) -> Hop:
    put(engine, "log", log)
    engine.put("journal", journal.table())
    return compare_log(engine, 100, lambda: put(engine, "raw", [*log, *aborted]))


def named(findings: Sequence[Finding]) -> set[tuple[str, str | None, int]]:
    return {(finding.code.value, finding.id, finding.times) for finding in each(findings)}


def written(folder: Path, *entries: dict[str, Any], torn: str = "") -> Journal:
    path = folder / "journal"
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + torn)
    return read_journals([path])


def test_each_outcome_decides_what_may_be_there(engine: DuckEngine) -> None:
    told = Journal(
        {"a": Outcome.ACKED, "gone": Outcome.ACKED, "no": Outcome.REFUSED, "x": Outcome.ABORTED, "u": Outcome.UNKNOWN}
    )
    hop = compared(engine, told, ["a", "a", "no", "x", "stranger"])
    assert named(hop.findings) == {
        ("D1", "a", 2),
        ("L1", "gone", 0),
        ("P", "no", 1),
        ("G1a", "x", 1),
        ("P", "stranger", 1),
    }
    assert (hop.expected, hop.landed, hop.facts["unknown"]) == (2, 5, 1)


def test_an_acknowledged_event_that_was_aborted_is_lost_and_the_note_says_how(engine: DuckEngine) -> None:
    (found,) = compared(engine, Journal({"a": Outcome.ACKED}), [], aborted=["a"]).findings
    assert (found.code, found.offset) == (Anomaly.LOST_BEFORE_LOG, 0)
    assert "not committed" in found.note


def test_a_torn_transaction_is_named_once_and_its_events_are_not_lost_too(engine: DuckEngine) -> None:
    told = Journal(dict.fromkeys("abc", Outcome.ACKED), {"a": "p/1", "b": "p/1", "c": "p/2"})
    hop = compared(engine, told, ["a", "c"])
    assert named(hop.findings) == {("G1b", "p/1", 1)}


def test_a_transaction_that_is_missing_whole_is_lost_event_by_event(engine: DuckEngine) -> None:
    told = Journal(dict.fromkeys("ab", Outcome.ACKED), {"a": "p/1", "b": "p/1"})
    assert named(compared(engine, told, []).findings) == {("L1", "a", 0), ("L1", "b", 0)}


@settings(max_examples=examples(30, 80), deadline=None)
@given(st.dictionaries(st.sampled_from("abcdef"), st.sampled_from(list(Outcome))), st.lists(st.sampled_from("abcdefg")))
def test_without_transactions_it_agrees_with_the_oracle(
    engine: DuckEngine, told: dict[str, Outcome], log: list[str]
) -> None:
    oracle = compare.compare_log(told, log)
    hop = compared(engine, Journal(dict(told)), log)
    at = [(one.code.value, one.id if one.offset is None else log[one.offset], one.times) for one in each(hop.findings)]
    assert set(at) == {(one.code.value, one.id, one.times) for one in oracle.findings}
    assert (hop.expected, hop.landed) == (oracle.expected, oracle.landed)


def test_a_sequence_that_goes_back_within_a_key_is_named(engine: DuckEngine) -> None:
    put(engine, "log", ["p:1", "p:3", "p:2", "q:1"], key=[b"k"] * 4)
    assert named(check_log(engine, 100).findings) == {("O1", "p:2", 1)}


def test_other_keys_may_overtake_and_a_copy_is_no_reordering(engine: DuckEngine) -> None:
    put(engine, "log", ["p:1", "p:3", "p:2", "p:1"], key=[b"k", b"other", b"k", b"k"])
    assert check_log(engine, 100).findings == []


def test_an_id_that_stands_twice_in_the_log_is_doubled(engine: DuckEngine) -> None:
    put(engine, "log", ["p:1", "p:2", "p:1", None, None])
    hop = check_log(engine, 100)
    doubled_in_log(engine, hop, 100)
    assert named(hop.findings) == {("D1", "p:1", 2)}


def test_a_value_without_its_checksum_is_corrupted(engine: DuckEngine) -> None:
    put(engine, "log", ["p:1", "p:2", "p:3"], intact=[True, False, None])
    assert named(check_log(engine, 100).findings) == {("X", "p:2", 1)}


def test_ids_of_the_callers_own_have_no_order(engine: DuckEngine) -> None:
    put(engine, "log", ["order-2", "order-1", "x:y", "a:9999999999999999999999"])
    assert check_log(engine, 100).findings == []


def test_a_journal_is_intents_and_outcomes_as_ranges(tmp_path: Path) -> None:
    journal = written(tmp_path, HEAD, {"sent": [1, 4]}, {"acked": [1, 2]}, {"refused": [3, 3], "why": "too large"})
    assert journal.outcomes == {
        "p:1": Outcome.ACKED,
        "p:2": Outcome.ACKED,
        "p:3": Outcome.REFUSED,
        "p:4": Outcome.UNKNOWN,
    }


def test_a_transactions_end_decides_for_its_events(tmp_path: Path) -> None:
    entries: list[dict[str, Any]] = [
        {"begin": 1}, {"sent": [1, 1]}, {"acked": [1, 1]}, {"abort": 1},
        {"begin": 2}, {"sent": [2, 2], "id": "order-2"}, {"commit": 2},
        {"begin": 3}, {"sent": [3, 3]}, {"acked": [3, 3]},  # the end never came
    ]  # fmt: skip
    journal = written(tmp_path, HEAD, *entries)
    assert journal.outcomes == {"p:1": Outcome.ABORTED, "order-2": Outcome.ACKED, "p:3": Outcome.UNKNOWN}
    assert journal.transactions == {"p:1": "p/1", "order-2": "p/2", "p:3": "p/3"}


def test_half_a_last_line_is_ignored_and_a_broken_one_before_is_not(tmp_path: Path) -> None:
    assert written(tmp_path, HEAD, {"sent": [1, 1]}, torn='{"acked": [1').outcomes == {"p:1": Outcome.UNKNOWN}
    with pytest.raises(Usage, match="line 2"):
        written(tmp_path, HEAD, torn="nonsense\n")


def test_verifiable_producers_output_is_a_journal(tmp_path: Path) -> None:
    journal = written(
        tmp_path,
        {"timestamp": 1, "name": "startup_complete"},
        {"name": "producer_send_success", "key": None, "value": "7", "topic": "t", "partition": 0, "offset": 3},
        {"name": "producer_send_error", "key": None, "value": "8", "topic": "t", "message": "timed out"},
        {"name": "shutdown_complete"},
    )
    assert journal.outcomes == {"7": Outcome.ACKED, "8": Outcome.UNKNOWN}
    assert journal.ids_are_values


SUCCESS = {"name": "producer_send_success", "key": None, "value": "7", "topic": "t", "partition": 0, "offset": 3}


def test_verifiable_producers_last_line_is_about_itself_though_it_says_sent(tmp_path: Path) -> None:
    last = {"timestamp": 1, "name": "tool_data", "sent": 20000, "acked": 20000, "target_throughput": -1}
    journal = written(tmp_path, {"name": "startup_complete"}, SUCCESS, {"name": "shutdown_complete"}, last)
    assert (journal.outcomes, journal.ignored) == ({"7": Outcome.ACKED}, 0)


def test_a_value_that_verifiable_producer_sent_twice_may_be_there_twice(engine: DuckEngine, tmp_path: Path) -> None:
    error = {"name": "producer_send_error", "value": "7", "message": "timed out"}
    journal = written(tmp_path, SUCCESS, SUCCESS, error)
    for times, found in ((1, {("L1", "7", 1)}), (2, set()), (3, set()), (4, {("D1", "7", 4)})):
        assert named(compared(engine, journal, ["7"] * times).findings) == found


def test_an_event_that_was_sent_again_was_acknowledged_if_one_attempt_was(tmp_path: Path) -> None:
    again: list[dict[str, Any]] = [HEAD, {"sent": [1, 3]}]
    first: list[dict[str, Any]] = [HEAD, {"sent": [1, 2]}, {"acked": [1, 1]}, {"refused": [2, 2]}]
    assert written(tmp_path, *first, *again, {"acked": [2, 2]}).outcomes == {
        "p:1": Outcome.ACKED,
        "p:2": Outcome.ACKED,
        "p:3": Outcome.UNKNOWN,
    }
    aborted: list[dict[str, Any]] = [HEAD, {"begin": 1}, {"sent": [1, 1]}, {"abort": 1}]
    assert written(tmp_path, *aborted, HEAD, {"begin": 1}, {"sent": [1, 1]}).outcomes == {"p:1": Outcome.UNKNOWN}


def test_transactions_of_two_sessions_are_two_though_their_numbers_are_the_same(
    engine: DuckEngine, tmp_path: Path
) -> None:
    done: list[dict[str, Any]] = [HEAD, {"begin": 1}, {"sent": [1, 2]}, {"commit": 1}]
    killed: list[dict[str, Any]] = [HEAD, {"begin": 1}, {"sent": [3, 4]}]
    journal = written(tmp_path, *done, *killed)
    assert compared(engine, journal, ["p:1", "p:2"]).findings == []


def test_a_journal_that_is_named_twice_counts_once_and_two_kinds_do_not_mix(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.write_text(json.dumps(HEAD) + '\n{"sent": [1, 1]}\n')
    theirs.write_text(json.dumps(SUCCESS) + "\n")
    assert read_journals([theirs, tmp_path / "." / "theirs"]).sends == {"7": 1}
    with pytest.raises(Usage, match="different ways"):
        read_journals([ours, theirs])


BROKEN = {
    "not JSON": b"nonsense\n",
    "binary": b"\x00\xff\xfe\x80\n",
    "not UTF-8": b'{"sent": [1, 1], "id": "\xff"}\n',
    "a list": b"[1, 2]\n",
    "a number": b"7\n",
    "deep": b'{"sent": ' + b"[" * 100_000 + b"]" * 100_000 + b"}\n",
    "an integer of 5,000 digits": b'{"sent": [1, ' + b"9" * 5_000 + b"]}\n",
    "a huge number": b'{"sent": [1, 99999999999999999999]}\n',
    "a range that fills the memory": b'{"sent": [1, 9000000000]}\n',
    "backwards": b'{"sent": [5, 1]}\n',
    "negative": b'{"acked": [-1, 1]}\n',
    "a fraction": b'{"acked": [1.5, 2]}\n',
    "a truth": b'{"acked": [true, true]}\n',
    "null": b'{"sent": null}\n',
    "one end": b'{"sent": [1]}\n',
    "texts": b'{"sent": ["a", "b"]}\n',
    "an id that is none": b'{"sent": [1, 1], "id": 7}\n',
    "half a character": b'{"sent": [1, 1], "id": "\\ud800"}\n',
    "a header without a producer": b'{"journal": 1}\n',
    "a transaction that is none": b'{"begin": "x"}\n',
    "an end that is none": b'{"commit": []}\n',
    "a value that is none": b'{"name": "producer_send_success", "value": null}\n',
    "no value": b'{"name": "producer_send_error"}\n',
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_line_that_is_of_no_journal_is_named_by_its_number(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "journal"
    path.write_bytes(json.dumps(HEAD).encode() + b"\n" + line)
    with pytest.raises(Usage, match=r"journal, line 2: "):
        read_journals([path])


@pytest.mark.parametrize("line", [{"sent": [1, 1]}, {"acked": [1, 1]}, {"begin": 1}, {"commit": 1}])
def test_an_event_of_nobody_is_refused(tmp_path: Path, line: dict[str, Any]) -> None:
    with pytest.raises(Usage, match=r"line 1: .*whose it is"):
        written(tmp_path, line)


def test_other_tools_lines_are_counted_and_a_file_of_nothing_else_is_no_journal(tmp_path: Path) -> None:
    other: list[dict[str, Any]] = [{"level": "info"}, {"name": "consumer_poll"}, {}]
    assert written(tmp_path, HEAD, *other, {"sent": [1, 1]}).ignored == 3
    with pytest.raises(Usage, match="it has no line"):
        written(tmp_path, *other)
    with pytest.raises(Usage, match="cannot be read"):
        read_journals([tmp_path])


def test_an_empty_journal_has_no_events() -> None:
    assert Journal().table().schema.field("id").type == pa.string()


def test_records_without_an_id_are_said_not_to_be_checked(engine: DuckEngine) -> None:
    """A journal names none of them."""
    journal = Journal({"p:0": Outcome.ACKED})
    assert compared(engine, journal, ["p:0"]).not_checked == []
    hop = compared(engine, journal, ["p:0", None, None])
    assert (hop.findings, hop.not_checked) == ([], ["2 records of the log without an id: no journal names them"])
