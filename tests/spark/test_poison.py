"""Records that cannot be decoded, cast, stored or transformed: named, or dead-lettered with all that they were."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import Poison
from fencepost.lab.crash import CrashAction, CrashPoint
from fencepost.model import Step
from spark.faults import FailAfter
from spark.flows import Flow


@dataclass(frozen=True)
class Bad:
    """A record that fails, where, and a word of the reason."""

    value: bytes
    reason: str
    transform: dict[str, str]


SQL = {"sql": "SELECT id, cast(s AS int) AS number, _from FROM events WHERE id % 10 <> 0"}
TEXT = {"sql": "SELECT id, s, _from FROM events"}
ARROW = {"arrow": "spark.transforms:not_seven"}
KINDS = {
    "decode": Bad(b"{nonsense", "not JSON of the schema", SQL),
    "cast": Bad(b'{"id": 7, "s": "seven"}', "seven", SQL),
    "store": Bad(json.dumps({"id": 7, "s": "a\0b"}).encode(), "0x00", TEXT),
    "arrow": Bad(b'{"id": 7, "s": "7"}', "ValueError: seven", ARROW),
}


# only a cast stops in Spark itself, without a name; the others are found in the same way for the dead letters below
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind == "cast" else pytest.mark.proof) for kind in KINDS]
)
def test_one_bad_record_stops_the_run_which_names_it(flow: Flow, kind: str) -> None:
    bad = KINDS[kind]
    flow.produce(range(200), {7: bad.value})
    with pytest.raises(Poison) as stopped:
        flow.run(transform=bad.transform)
    assert stopped.value.exit_code == 1
    assert stopped.value.partition == str(flow.partition(1))
    ((offset, reason),) = stopped.value.records
    assert offset == 3
    assert bad.reason in reason
    assert flow.landed_in(1) == 0
    assert flow.positions()[1] == 0


def test_bad_records_are_put_aside_whole_in_their_spans_transaction(flow: Flow) -> None:
    """Of one batch, two that cannot be decoded, one that cannot be cast; what was read is landed, filtered or dead."""
    bad = {7: KINDS["decode"].value, 8: KINDS["cast"].value, 107: KINDS["decode"].value}
    flow.produce(range(200), bad)
    run = flow.run(transform=SQL, on_error="dead_letter")
    assert (run.rows, run.dead) == (177, 3)  # and twenty were filtered out
    assert sorted(flow.landed()) == [id_ for id_ in range(200) if id_ % 10 and id_ not in bad]
    letters = _letters(flow)
    assert [letter[:4] for letter in letters] == [
        (flow.name, 0, 4, bad[8]),
        (flow.name, 1, 3, bad[7]),
        (flow.name, 1, 53, bad[107]),
    ]
    assert [(key, headers) for *_, key, headers, _ in letters] == [
        (str(id_).encode(), [["n", str(id_)]]) for id_ in (8, 7, 107)
    ]
    reasons = [KINDS[kind].reason for kind in ("cast", "decode", "decode")]
    assert [word in letter[-1] for word, letter in zip(reasons, letters, strict=True)] == [True] * 3
    assert flow.positions() == {0: 100, 1: 100}
    assert flow.sql("SELECT sum(rows)::int, sum(dead)::int FROM fencepost.spans WHERE pipeline = %s", flow.name) == [
        (177, 3)
    ]


@pytest.mark.proof
def test_no_record_is_too_bad_to_be_put_aside(flow: Flow) -> None:
    bad = {1: b"\0", 3: b'{"id": 3, "s": "\xff"}', 5: b" ", 7: b"[]", 9: b'{"id": "' + b"x" * 100_000 + b'"}'}
    flow.produce(range(10), bad, header=b"\0\xff")
    assert flow.run(transform=TEXT, on_error="dead_letter").dead == 5
    assert sorted(flow.landed()) == [0, 2, 4, 6, 8]
    assert [letter[3] for letter in _letters(flow)] == list(bad.values())
    assert _letters(flow)[0][5] == [["n", "\N{REPLACEMENT CHARACTER}" * 2]]
    assert flow.positions() == {0: 5, 1: 5}


@pytest.mark.parametrize("kind", ["store", pytest.param("arrow", marks=pytest.mark.proof)])
def test_what_the_task_itself_cannot_take_is_put_aside_too(flow: Flow, kind: str) -> None:
    bad = KINDS[kind]
    flow.produce(range(200), {7: bad.value})
    run = flow.run(transform=bad.transform, on_error="dead_letter")
    assert (run.rows, run.dead) == (199, 1)
    assert sorted(flow.landed()) == [id_ for id_ in range(200) if id_ != 7]
    (letter,) = _letters(flow)
    assert letter[:4] == (flow.name, 1, 3, bad.value)
    assert bad.reason in letter[-1]
    assert flow.positions() == {0: 100, 1: 100}


NOT_ONE_DOCUMENT = [
    b'{"id": 1, "s": "1"}{"id": 2, "s": "2"}',
    b'{"id": 1}\n{"id": 2}',
    b'{"id": 1},{"id": 2}',
    b'{"id": 1},"s": "2"',
    b'{"id": 1}]',
    b'{"id": 1}}',
    b'{"id": 1} and more',
    b"null",
    b'[{"id": 1}]',
    b"",
]


@pytest.mark.proof
def test_a_value_that_is_not_exactly_one_document_is_a_bad_record(flow: Flow) -> None:
    good = {20: b' {"id": 20, "s": "}{"}\n', 21: b'{"s": "21", "id": 21}', 22: b'{"id": 22, "s": "]}"}'}
    bad = dict(enumerate(NOT_ONE_DOCUMENT))
    flow.produce(range(30), bad | good)
    run = flow.run(transform=TEXT, on_error="dead_letter")
    assert sorted(flow.landed()) == list(range(len(bad), 30))
    assert run.dead == len(bad)
    assert sorted(letter[3] for letter in _letters(flow)) == sorted(bad.values())


@pytest.mark.proof
def test_rows_of_an_attempt_that_failed_in_another_partition_are_counted(flow: Flow, tmp_path: Path) -> None:
    flow.produce(range(200))
    witness = tmp_path / "delivered"
    comes_by = CrashPoint(Step.DELIVERED, flow.partition(0), CrashAction.FAIL, witness, time=1_000)  # and does nothing
    run = flow.run(comes_by, transform=FailAfter(7, witness).in_file(tmp_path), on_error="dead_letter")
    assert [done.already for done in run.batches()] == [1]  # partition 0 landed before the job failed
    assert (len(flow.landed()), run.rows, run.dead) == (199, 199, 1)


def _letters(flow: Flow) -> list[Any]:
    return flow.sql(
        f'SELECT topic, partition, "offset", value, key, headers, _dead FROM {flow.name}_dead '
        'ORDER BY partition, "offset"'
    )


MANY = 600  # of which 225 of each partition are bad: more than are ever looked for one by one
CAST = "SELECT id, cast(s AS int) AS number, _from FROM events WHERE id >= 0 AND cast(s AS int) >= 0"
EXPLODED = "SELECT id, cast(part AS int) AS number, _from FROM events LATERAL VIEW explode(split(s, ',')) AS part"


@pytest.mark.proof
@pytest.mark.parametrize("sql", [CAST, EXPLODED, f"{CAST} ORDER BY id"])
def test_hundreds_of_records_on_which_an_expression_fails_are_found_at_once(flow: Flow, sql: str) -> None:
    """Those that a filter takes out before it fails on them are not among them."""
    bad = {id_: b'{"id": %d, "s": "x%d"}' % (id_, id_) for id_ in range(MANY) if id_ % 8 < 6}
    filtered = {} if sql == EXPLODED else dict.fromkeys(range(6, MANY, 40), b'{"id": -1, "s": "no number"}')
    flow.produce(range(MANY), bad | filtered)
    run = flow.run(transform={"sql": sql}, on_error="dead_letter")
    assert run.dead == len(bad)
    assert sorted(flow.landed()) == sorted(set(range(MANY)) - bad.keys() - filtered.keys())
    letters = _letters(flow)
    assert {letter[3] for letter in letters} == set(bad.values())
    assert all("CAST_INVALID_INPUT" in letter[-1] for letter in letters)
    assert flow.positions() == {0: MANY // 2, 1: MANY // 2}
