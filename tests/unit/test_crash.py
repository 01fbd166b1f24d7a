"""A crash point acts where it says, as often as it says, and leaves a witness first."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from fencepost.delivery import deliver
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import Crash, CrashAction, CrashPoint, MidCopy, Visit, let_go, visits
from fencepost.machine import process
from fencepost.model import Batch, Span, Step, Tenure, TopicPartition
from fencepost.sinks.memory.store import MemoryStore

ORDERS = TopicPartition("orders", 0)
RETURNS = TopicPartition("returns", 0)
TENURE = Tenure("shop", uuid4(), 1, {ORDERS: 0})


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    return tmp_path / "witness"


def batch(partition: TopicPartition = ORDERS, rows: Any = ()) -> Batch[Any]:
    return Batch({partition: Span(0, 3)}, rows, TENURE)


def test_it_acts_at_its_step_of_its_partition_only(witness: Path) -> None:
    point = CrashPoint(Step.WRITTEN, ORDERS, CrashAction.FAIL, witness)
    point(Step.STARTED, batch())
    point(Step.WRITTEN, batch(RETURNS))
    assert visits(witness) == []
    with pytest.raises(Crash, match=r"written of shop: orders/0 \[0, 3\)"):
        point(Step.WRITTEN, batch())
    assert visits(witness) == [Visit(os.getpid(), "written of shop: orders/0 [0, 3)", True, 3)]


def test_it_acts_once_and_counts_over_copies_of_itself(witness: Path) -> None:
    point = CrashPoint(Step.WRITTEN, ORDERS, CrashAction.FAIL, witness, time=2)
    copies = [pickle.loads(pickle.dumps(point)) for _ in range(3)]  # noqa: S301 (our own bytes)
    copies[0](Step.WRITTEN, batch())
    with pytest.raises(Crash):
        copies[1](Step.WRITTEN, batch())
    copies[2](Step.WRITTEN, batch())
    assert [visit.acted for visit in visits(witness)] == [False, True, False]


def test_in_the_middle_of_the_rows_some_have_gone_and_others_have_not(witness: Path) -> None:
    rows = MidCopy(2, CrashAction.FAIL, witness).rows("abcd")
    assert [next(rows), next(rows)] == ["a", "b"]
    with pytest.raises(Crash, match="after 2 record batches"):
        next(rows)
    assert "".join(MidCopy(2, CrashAction.FAIL, witness).rows("abcd")) == "abcd"  # not a second time


def test_the_last_rows_may_be_the_ones_it_acts_after(witness: Path) -> None:
    with pytest.raises(Crash):
        list(MidCopy(4, CrashAction.FAIL, witness).rows("abcd"))
    assert "".join(MidCopy(9, CrashAction.FAIL, witness).rows("abcd")) == "abcd"


def test_a_failure_is_not_taken_for_an_answer_of_the_sink(witness: Path) -> None:
    store = MemoryStore()
    tenure = store.take_over("shop", uuid4(), {ORDERS: 0}, {})
    events: Batch[Any] = Batch({ORDERS: Span(0, 3)}, range(3), tenure)
    with pytest.raises(Crash):
        deliver(
            Guarantee.EXACTLY_ONCE, events, store, store, CrashPoint(Step.ADVANCED, ORDERS, CrashAction.FAIL, witness)
        )
    assert store.positions("shop") == {ORDERS: 0}


PROGRAM = """
import pickle, sys, threading
from fencepost.model import Step
point, batch = pickle.loads(bytes.fromhex(sys.argv[1]))
threading.Thread(target=threading.Event().wait, daemon=True).start()  # the signal must not go to another thread
point(Step.WRITTEN, batch)
print("went on", flush=True)
"""


def start(point: CrashPoint) -> subprocess.Popen[str]:
    given = pickle.dumps((point, batch())).hex()
    return subprocess.Popen([sys.executable, "-c", PROGRAM, given], stdout=subprocess.PIPE, text=True)


def test_a_killed_process_has_left_its_witness(witness: Path) -> None:
    child = start(CrashPoint(Step.WRITTEN, ORDERS, CrashAction.KILL, witness))
    said, _ = child.communicate(timeout=30)
    assert (child.returncode, said) == (-signal.SIGKILL, "")
    assert visits(witness) == [Visit(child.pid, "written of shop: orders/0 [0, 3)", True, 3)]


def test_a_stopped_process_goes_on_when_it_is_continued(witness: Path) -> None:
    child = start(CrashPoint(Step.WRITTEN, ORDERS, CrashAction.STOP, witness))
    try:
        identity = process.identify(child.pid)
        assert identity
        assert process.until(lambda: process.stopped(identity), 30)
        assert [visit.pid for visit in visits(witness)] == [child.pid]
        child.send_signal(signal.SIGCONT)
        said, _ = child.communicate(timeout=30)
        assert (child.returncode, said) == (0, "went on\n")
    finally:
        child.kill()
        child.wait()


def test_a_held_thread_waits_for_a_word_and_its_process_lives_on(witness: Path) -> None:
    child = start(CrashPoint(Step.WRITTEN, ORDERS, CrashAction.HOLD, witness))
    try:
        assert process.until(lambda: bool(visits(witness)), 30)
        with pytest.raises(subprocess.TimeoutExpired):
            child.communicate(timeout=0.3)
        identity = process.identify(child.pid)
        assert identity
        assert not process.stopped(identity)
        let_go(witness)
        said, _ = child.communicate(timeout=30)
        assert (child.returncode, said) == (0, "went on\n")
    finally:
        child.kill()
        child.wait()
