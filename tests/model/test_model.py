"""The product against its model: drawn pipelines and histories on real Kafka and PostgreSQL, beside the oracle.

`MODEL_SEED` and `MODEL_EXAMPLES` say which examples, and how many; a failure prints both.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random, SystemRandom
from threading import Event, Thread
from typing import Any, cast
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.database import InMemoryExampleDatabase

from fencepost.local import Stack
from fencepost.model import Batch, Step, Tenure
from model.case import Case, Change, Turn
from model.drawing import cases
from model.driving import Field, Play, Watch
from model.playing import Disagreement, play

GATE = (13, 100)  # the seed, and how many examples
GATE_ON_SPARK = (5, 3)
PROOF = 2_000
PROOF_ON_SPARK = 12
PHASES = (Phase.reuse, Phase.shrink)
BYTES = 8_192  # an example takes fewer


@pytest.fixture(scope="module")
def field(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Field:
    return Field(stack, Path(tmp_path_factory.mktemp("model")))


def _asked(name: str, otherwise: int) -> int:
    return int(os.environ.get(name, str(otherwise)))


def explore(field: Field, number: int, examples: int, engine: str = "python") -> None:
    """Play so many examples. The first that fails is made as small as it can be, and told.

    Each is drawn from random bytes of its own: hypothesis by itself varies an example several times before it draws
    another, and these are dear.
    """

    @settings(deadline=None, database=InMemoryExampleDatabase(), phases=PHASES, suppress_health_check=list(HealthCheck))
    @given(case=cases(engine))
    def agrees(case: Case) -> None:
        play(field, case)

    drawn = Random(number)
    try:
        for _ in range(examples):
            try:
                agrees.hypothesis.fuzz_one_input(drawn.randbytes(BYTES))  # type: ignore[attr-defined]
            except Disagreement:
                agrees()  # makes it smaller
                raise
    except BaseException as failure:
        failure.add_note(f"again with MODEL_SEED={number} MODEL_EXAMPLES={examples}")
        raise


class Locked:
    """A table whose change waits for a batch that is under way, as PostgreSQL's does."""

    def __init__(self) -> None:
        self.begun, self.past = Event(), Event()

    def change(self, _change: Change) -> None:
        self.begun.set()
        assert self.past.wait(10), "the batch did not get past its observer"


def test_a_change_of_the_table_holds_up_no_batch_that_is_under_way() -> None:
    table, batch = Locked(), Batch[Any]({}, [], Tenure("p", uuid4(), 0, {}))
    watch = Watch(cast(Play, table), Turn(change=(Change.DROP, 1)))
    changing = Thread(target=watch.see, args=(Step.STARTED, batch))
    changing.start()
    assert table.begun.wait(10)
    watch.see(Step.WRITTEN, batch)
    table.past.set()
    changing.join(20)
    assert watch.changed is Change.DROP


@pytest.mark.timeout(1_800)
def test_a_hundred_pipelines_do_what_the_model_says(field: Field) -> None:
    number, examples = GATE
    explore(field, _asked("MODEL_SEED", number), _asked("MODEL_EXAMPLES", examples))


@pytest.mark.timeout(900)
def test_a_few_do_on_spark(field: Field) -> None:
    number, examples = GATE_ON_SPARK
    explore(field, _asked("MODEL_SEED", number), _asked("MODEL_EXAMPLES", examples), "spark")


@pytest.mark.proof
@pytest.mark.timeout(14_400)
def test_thousands_do_with_a_new_seed_each_time(field: Field, capsys: pytest.CaptureFixture[str]) -> None:
    number = _asked("MODEL_SEED", SystemRandom().getrandbits(32))
    with capsys.disabled():
        print(f" MODEL_SEED={number} ", end="", flush=True)  # noqa: T201 (whoever sees it fail wants it)
    explore(field, number, _asked("MODEL_EXAMPLES", PROOF))


@pytest.mark.proof
@pytest.mark.timeout(3_600)
def test_a_dozen_do_on_spark(field: Field) -> None:
    explore(field, _asked("MODEL_SEED", SystemRandom().getrandbits(32)), PROOF_ON_SPARK, "spark")
