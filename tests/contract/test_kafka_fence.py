"""Writers that die, stall or are replaced at each step of a Kafka transaction: every output is there once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest

from contract.kafka_flow import Flow
from contract.kafka_process import EVENTS, Work
from contract.kafka_steps import Point, stepping
from fencepost.errors import Fenced, Rewound, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.kafka import transactions
from fencepost.lab.crash import visits
from fencepost.model import Batch, Landed, Step, TopicPartition
from fencepost.sinks.kafka import KafkaSettings

TESTS = Path(__file__).parents[1]
PROOF = pytest.mark.proof
ALREADY = Landed(rows=0, already=True)


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[Point, Callable[[], object]], None]:
    """Have something happen once, when a client of this process is next at a point."""
    waiting: dict[Point, Callable[[], object]] = {}

    def act(point: Point) -> None:
        if point in waiting:
            waiting.pop(point)()

    monkeypatch.setattr(transactions, "Client", stepping(act))
    return waiting.__setitem__


def run(work: Work) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "contract.kafka_process", work.packed()],
        cwd=TESTS,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


IN_THE_SECOND_SPAN = {
    # the takeover comes to every step but the one that produces
    False: {point: 2 if point is Point.AFTER_PRODUCE else 3 for point in Point} | {Point.AFTER_INIT: 1},
    True: {point: 2 if point is Point.AFTER_PRODUCE else 3 for point in Point},
}


@pytest.mark.parametrize(
    ("point", "fresh"),
    [
        pytest.param(Point.AFTER_PRODUCE, False, marks=PROOF),
        (Point.AFTER_OFFSETS, True),
        (Point.BEFORE_COMMIT, False),
        pytest.param(Point.AFTER_INIT, False, marks=PROOF),
        pytest.param(Point.AFTER_INIT, True, marks=PROOF),
        pytest.param(Point.AFTER_BEGIN, False, marks=PROOF),
        pytest.param(Point.AFTER_OFFSETS, False, marks=PROOF),
    ],
)
def test_a_killed_writer_leaves_every_output_once(flow: Flow, tmp_path: Path, point: Point, fresh: bool) -> None:
    witness = tmp_path / "witness"
    killed = run(Work(flow.plan, witness, point, IN_THE_SECOND_SPAN[fresh][point], fresh))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert [visit.acted for visit in visits(witness)][-1:] == [True]
    successor = run(Work(flow.plan, witness, fresh=fresh))
    assert successor.returncode == 0, successor.stderr
    assert flow.landed() == list(range(EVENTS))
    assert flow.position() == EVENTS


@pytest.mark.parametrize(
    "point",
    [
        Point.AFTER_OFFSETS,
        Point.BEFORE_COMMIT,
        *(pytest.param(p, marks=PROOF) for p in (Point.AFTER_INIT, Point.AFTER_BEGIN, Point.AFTER_PRODUCE)),
    ],
)
def test_a_zombie_is_fenced_at_every_step(
    flow: Flow, at: Callable[[Point, Callable[[], object]], None], point: Point
) -> None:
    old = flow.plan.take_over(flow.open())

    def succeed() -> None:
        successor = flow.open()
        new = flow.plan.take_over(successor)
        flow.plan.carry(successor, new, 0, 10)
        flow.plan.carry(successor, new, 10, 20)

    at(point, succeed)
    with pytest.raises(Fenced) as fenced:
        flow.plan.carry(flow.open(), old, 0, 10)
    assert type(fenced.value) is Fenced  # told for good: it must not go on
    assert flow.landed() == list(range(20))
    assert flow.position() == 20


def test_where_no_position_has_moved_yet_the_run_id_alone_tells_them_apart(flow: Flow) -> None:
    old = flow.plan.take_over(flow.open())
    successor = flow.open()
    new = flow.plan.take_over(successor)
    with pytest.raises(Fenced):
        flow.plan.carry(flow.open(), old, 0, 10)
    assert flow.plan.carry(successor, new, 0, 10) == Landed(rows=10)  # the zombie looked first, and disturbed nobody
    assert flow.landed() == list(range(10))


def test_control_without_a_shared_transactional_id_a_zombie_doubles(
    flow: Flow, at: Callable[[Point, Callable[[], object]], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def another(_settings: KafkaSettings, _pipeline: str, _source: TopicPartition) -> str:
        return uuid4().hex

    monkeypatch.setattr(KafkaSettings, "transactional_id", another)
    old = flow.plan.take_over(flow.open())

    def succeed() -> None:
        successor = flow.open()
        flow.plan.carry(successor, flow.plan.take_over(successor), 0, 10)

    at(Point.AFTER_PRODUCE, succeed)
    flow.plan.carry(flow.open(), old, 0, 10)
    assert flow.landed() == sorted([*range(10), *range(10)])


def test_a_living_owner_whose_id_a_zombie_takes_goes_on_under_a_new_token(
    flow: Flow, at: Callable[[Point, Callable[[], object]], None]
) -> None:
    zombie = flow.open()
    old = flow.plan.take_over(zombie)
    living = flow.open()
    new = flow.plan.take_over(living)
    flow.plan.carry(living, new, 0, 10)

    def wake_up() -> None:
        zombie._producer_of(old.pipeline, flow.plan.source).take()
        with pytest.raises(Fenced):
            flow.plan.carry(zombie, old, 0, 10)

    at(Point.AFTER_PRODUCE, wake_up)
    with pytest.raises(Rewound):  # fenced, but nobody took over: it may go on from the ledger
        flow.plan.carry(living, new, 10, 20)
    renewed = living.renew(new, uuid4())
    assert renewed.positions == {flow.plan.source: 10}
    flow.plan.carry(living, renewed, 10, 20)
    assert flow.landed() == list(range(20))


def test_at_most_once_a_batch_that_a_zombie_aborted_is_put_back(
    flow: Flow, at: Callable[[Point, Callable[[], object]], None]
) -> None:
    store = flow.open()
    tenure = flow.plan.take_over(store)
    at(Point.AFTER_PRODUCE, lambda: flow.open()._producer_of(tenure.pipeline, flow.plan.source).take())
    with pytest.raises(Unreachable, match="nothing of it was committed"):
        flow.plan.carry(store, tenure, 0, 10, guarantee=Guarantee.AT_MOST_ONCE)
    assert flow.position() == 0  # nothing of it was committed, for certain: so it is not lost
    assert flow.landed() == []


def test_an_attempt_of_ones_own_that_was_first_is_told_as_already(
    flow: Flow, at: Callable[[Point, Callable[[], object]], None]
) -> None:
    tenure = flow.plan.take_over(flow.open())
    at(Point.BEFORE_COMMIT, lambda: flow.plan.carry(flow.open(), tenure, 0, 10))
    assert flow.plan.carry(flow.open(), tenure, 0, 10) == ALREADY
    assert flow.landed() == list(range(10))


def test_an_attempt_that_lands_between_the_look_and_the_transaction_is_told_as_already(flow: Flow) -> None:
    tenure = flow.plan.take_over(flow.open())

    def overtake(step: Step, _batch: Batch[object]) -> None:
        if step is Step.STARTED:
            flow.plan.carry(flow.open(), tenure, 0, 10)

    assert flow.plan.carry(flow.open(), tenure, 0, 10, overtake) == ALREADY
    assert flow.landed() == list(range(10))


def test_two_that_claim_the_same_partitions_at_once_do_not_share_them(
    flow: Flow, at: Callable[[Point, Callable[[], object]], None]
) -> None:
    every = {TopicPartition(flow.source, number): 0 for number in range(3)}
    pipeline = flow.plan.settings.pipeline
    other = flow.open()
    at(Point.BEFORE_COMMIT, lambda: other.take_over(pipeline, uuid4(), every, {}))
    mine = flow.open().take_over(pipeline, uuid4(), every, {})
    stands = flow.open()._group(pipeline).settled(every)
    assert {one.owner for one in stands.values()} == {mine.token}
