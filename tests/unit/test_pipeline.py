"""The run loop, with an engine whose troubles are written down beforehand: no broker, no database, no Spark."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from threading import Event
from uuid import UUID, uuid4

import pytest

from fencepost.delivery import Ledger, Observer, deliver
from fencepost.engines import backoff
from fencepost.engines.listener import BatchDone, Listener, News, PartitionsAdded, Skipped, Started, Waiting
from fencepost.errors import Fenced, FencepostError, RecordsGone, Rewound, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Span, Tenure, TopicPartition
from fencepost.run.loop import Summary
from fencepost.run.pipeline import Engine, Pipeline
from fencepost.sinks.memory.store import Memory, MemoryStore
from fencepost.spec import PipelineSpec

EVENTS = 6
SPEC = {
    "name": "shop",
    "guarantee": "exactly-once",
    "source": {"topic": "orders"},
    "sink": {"format": "postgres", "options": {"table": "orders"}},
}
Trouble = Exception | Callable[[], object]


class StoryEngine:
    """Carries one event per batch into memory; before the n-th batch of the run comes the n-th trouble."""

    def __init__(self, memory: Memory, troubles: list[Trouble | None], partitions: int = 1) -> None:
        self.store = MemoryStore(memory)
        self.troubles = troubles
        self.partitions = partitions
        self.committed: Landed | None = None
        self.asked: tuple[list[UUID], dict[TopicPartition, int]] | None = None

    @property
    def ledger(self) -> Ledger:
        return self.store

    def positions(self, stored: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        every = [TopicPartition("orders", number) for number in range(self.partitions)]
        return {partition: stored.get(partition, 0) for partition in every}

    def topic_ids(self) -> Mapping[str, str]:
        return {"orders": "id-1"}

    def carry(self, tenure: Tenure, once: bool, report: Listener) -> None:
        for partition, position in tenure.positions.items():
            for offset in range(position, EVENTS):
                self._trouble()
                batch = Batch({partition: Span(offset, offset + 1)}, [(partition.partition, offset)], tenure)
                landed = deliver(Guarantee.EXACTLY_ONCE, batch, self.store, self.store)
                report(BatchDone(offset, {partition: offset + 1}, 1, landed.rows, 0, landed.already))

    def landed(self, runs: Collection[UUID], first: Mapping[TopicPartition, int]) -> Landed | None:
        self.asked = (list(runs), dict(first))
        return self.committed

    def _trouble(self) -> None:
        trouble = self.troubles.pop(0) if self.troubles else None
        if isinstance(trouble, Exception):
            raise trouble
        if trouble is not None:
            trouble()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "FIRST_WAIT", 0.001)


def run(
    engine: StoryEngine, news: list[News] | None = None, once: bool = True, spec: Mapping[str, object] = SPEC
) -> Summary:
    @contextmanager
    def opened(_spec: PipelineSpec, _stop: Event, _see: Observer) -> Iterator[Engine]:
        yield engine

    return Pipeline(spec, listen=(news if news is not None else []).append, engine=opened).run(once=once)


def everything(partitions: int = 1) -> list[tuple[int, int]]:
    return [(partition, offset) for partition in range(partitions) for offset in range(EVENTS)]


def test_a_quiet_run_carries_everything_once() -> None:
    memory, news = Memory(), []  # type: ignore[var-annotated]
    summary = run(StoryEngine(memory, []), news)
    assert memory.rows == everything()
    assert (summary.rows, summary.batches, summary.restarts) == (EVENTS, EVENTS, 0)
    assert [type(item).__name__ for item in news] == ["Started"] + ["BatchDone"] * EVENTS


@pytest.mark.parametrize("trouble", [Unreachable("down"), Unknown("no answer"), Rewound("went back")])
def test_trouble_is_told_and_waited_out_and_the_run_goes_on_under_a_new_token(trouble: FencepostError) -> None:
    memory, news = Memory(), []  # type: ignore[var-annotated]
    summary = run(StoryEngine(memory, [None, None, trouble, trouble]), news)
    assert memory.rows == everything()
    assert summary.restarts == 2
    assert sum(isinstance(item, Waiting) for item in news) == 2
    tokens = [item.run for item in news if isinstance(item, Started)]
    assert len(set(tokens)) == 3
    assert {item.epoch for item in news if isinstance(item, Started)} == {1}


def test_a_takeover_by_another_run_ends_this_one_and_it_does_not_come_back() -> None:
    memory = Memory()
    other = MemoryStore(memory)

    def take_over() -> None:
        other.take_over("shop", uuid4(), {TopicPartition("orders", 0): 0}, {})

    with pytest.raises(Fenced):
        run(StoryEngine(memory, [None, take_over]))
    assert memory.rows == everything()[:1]


def test_a_takeover_during_the_trouble_is_noticed_when_the_run_renews() -> None:
    memory = Memory()
    other = MemoryStore(memory)

    def lose_everything() -> None:
        other.take_over("shop", uuid4(), {TopicPartition("orders", 0): 0}, {})
        raise Unreachable("the database was away meanwhile")

    with pytest.raises(Fenced):
        run(StoryEngine(memory, [None, lose_everything]))


def test_new_partitions_are_taken_over_between_batches_and_read_from_their_start() -> None:
    memory = Memory()
    engine = StoryEngine(memory, [None, None])

    def grow() -> None:
        engine.partitions = 2
        raise PartitionsAdded

    engine.troubles.append(grow)
    run(engine)
    assert sorted(memory.rows) == everything(partitions=2)


def test_what_failed_attempts_had_committed_is_counted_by_the_ledger_under_every_token_of_the_run() -> None:
    news: list[News] = []
    engine = StoryEngine(Memory(), [None, Unreachable("down"), Unknown("no answer")])
    engine.committed = Landed(rows=100, dead=7)

    def grow() -> None:
        engine.partitions = 2
        raise PartitionsAdded

    engine.troubles.append(grow)
    summary = run(engine, news)
    assert (summary.rows, summary.dead) == (100, 7)
    first = {TopicPartition("orders", 0): 0, TopicPartition("orders", 1): 0}
    assert engine.asked == ([item.run for item in news if isinstance(item, Started)], first)


def test_records_that_are_gone_end_a_run_unless_it_may_go_over_them() -> None:
    gone = RecordsGone("orders/0: 3 to 4 are gone")
    with pytest.raises(RecordsGone):
        run(StoryEngine(Memory(), [None, gone]))

    memory, news = Memory(), []  # type: ignore[var-annotated]
    lenient = {**SPEC, "guarantee": "at-most-once", "source": {"topic": "orders", "failOnDataLoss": False}}
    summary = run(StoryEngine(memory, [None, gone]), news, spec=lenient)
    assert memory.rows == everything()
    assert [item.trouble for item in news if isinstance(item, Waiting)] == [gone.message]
    assert summary.restarts == 1


def test_a_gap_that_a_run_does_not_get_over_is_not_tried_again_without_a_pause() -> None:
    gone = RecordsGone("orders/0: 3 to 4 are gone")
    lenient = {**SPEC, "guarantee": "at-most-once", "source": {"topic": "orders", "failOnDataLoss": False}}
    news: list[News] = []
    run(StoryEngine(Memory(), [None, gone, gone, gone]), news, spec=lenient)
    waits = [item.seconds for item in news if isinstance(item, Waiting)]
    assert waits[0] == 0
    assert all(seconds for seconds in waits[1:])
    assert len(waits) == 3


def test_a_gap_that_is_told_again_after_a_crash_counts_once() -> None:
    at = TopicPartition("orders", 0)

    class Gappy(StoryEngine):
        def carry(self, tenure: Tenure, once: bool, report: Listener) -> None:
            report(Skipped(at, Span(0, 3)))
            self._trouble()
            report(Skipped(at, Span(7, 9)))

    assert run(Gappy(Memory(), [Unknown("no answer")])).skipped == 5


def test_what_a_person_must_fix_is_not_retried() -> None:
    with pytest.raises(ValueError, match="bug"):
        run(StoryEngine(Memory(), [ValueError("a bug")]))


def test_a_run_that_is_asked_to_stop_ends_after_the_batch() -> None:
    memory = Memory()
    stopped: list[Pipeline] = []

    @contextmanager
    def opened(_spec: PipelineSpec, _stop: Event, _see: Observer) -> Iterator[Engine]:
        yield StoryEngine(memory, [None, None, Unreachable("down")])

    def listen(item: News) -> None:
        if isinstance(item, Waiting):
            stopped[0].stop()

    stopped.append(Pipeline(SPEC, listen=listen, engine=opened))
    summary = stopped[0].run()
    assert summary.rows == 2
    assert memory.rows == everything()[:2]


def test_once_gives_up_when_nothing_answers_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "ONCE_GIVES_UP_AFTER", 0.0)
    with pytest.raises(Unreachable, match="down"):
        run(StoryEngine(Memory(), [Unreachable("down")] * 100))
