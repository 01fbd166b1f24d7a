"""Checkpoints that do not fit the ledger: refused, with both told, before anything is taken from anybody."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fencepost.admin.plan import plan_pipeline
from fencepost.admin.positions import propose
from fencepost.engines.spark.stateful.takeover import judge_of
from fencepost.errors import CheckpointMismatch, PositionLost, Usage
from fencepost.local import Stack
from fencepost.spec import load
from spark.streams import StateFlow, spread


@pytest.fixture(scope="module")
def ran(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> tuple[StateFlow, Path]:
    """Two runs, and a copy of the checkpoint as it was between them."""
    flow = StateFlow(stack, tmp_path_factory.mktemp("ran"))
    flow.send(spread(range(100)))
    flow.run()
    early = shutil.copytree(flow.root, flow.folder / "early")
    flow.send(spread(range(100, 200)))
    flow.run()
    shutil.copytree(flow.root, flow.folder / "whole")
    return flow, early


@pytest.fixture
def flow(ran: tuple[StateFlow, Path]) -> Iterator[StateFlow]:
    """Its checkpoint is whole again afterwards."""
    flow, _ = ran
    yield flow
    shutil.rmtree(flow.root, ignore_errors=True)
    shutil.copytree(flow.folder / "whole", flow.root)


def judged(flow: StateFlow) -> None:
    """As a run does it, before and after it takes over."""
    spec = load(flow.declare())
    with closing(spec.sink.kind.ledger(spec.job)) as ledger:
        judge_of(spec, ledger).judged(ledger.positions(spec.name))


def at(flow: StateFlow, *place: str) -> Path:
    number, folder = flow.last()
    return flow.root.joinpath(folder, *(part.format(n=number, before=number - 1, after=number + 1) for part in place))


def torn(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def another_stream(flow: StateFlow) -> None:
    at(flow, "metadata").write_text('{"id":"00000000-0000-0000-0000-000000000000"}')


def another_watermark(flow: StateFlow) -> None:
    commit = at(flow, "commits", "{n}")
    commit.write_text(commit.read_text().replace('Ms":1', 'Ms":2'))


def another_batch(flow: StateFlow) -> None:
    shutil.copyfile(at(flow, "offsets", "{before}"), at(flow, "offsets", "{n}"))


# what happened to it, and what is said of it
DAMAGES: dict[str, tuple[Callable[[StateFlow], object], str]] = {
    "all of it is gone": (lambda flow: shutil.rmtree(flow.root), "is not there"),
    "the folder of the last batch is gone": (lambda flow: shutil.rmtree(at(flow)), "is not there"),
    "it is another stream's": (another_stream, "is of stream 00000000-0000-0000-0000-000000000000"),
    "its log is torn": (lambda flow: torn(at(flow, "offsets", "{n}")), "does not hold it"),
    "it has another batch of that number": (another_batch, "has another batch"),
    "the batch before is not done": (lambda flow: at(flow, "commits", "{before}").unlink(), "does not say that batch"),
    "another watermark follows": (another_watermark, "has another watermark"),
    "a part of the state is gone": (lambda flow: at(flow, "state", "0", "2", "{after}.delta").unlink(), "state/0/2"),
    "a part of the state is empty": (
        lambda flow: at(flow, "state", "0", "1", "{after}.delta").write_text(""),
        "state/0/1",
    ),
    "a whole part of the state is gone": (lambda flow: shutil.rmtree(at(flow, "state", "0", "3")), "state/0/3"),
    "all of the state is gone": (lambda flow: shutil.rmtree(at(flow, "state")), "lacks the state"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_refused_and_both_are_told(flow: StateFlow, damage: str) -> None:
    judged(flow)
    harm, said = DAMAGES[damage]
    harm(flow)
    with pytest.raises(CheckpointMismatch) as refused:
        judged(flow)
    number, folder = flow.last()
    assert f"the last batch that landed is {number} of stream" in refused.value.message
    assert f"{flow.root / folder} " in refused.value.message
    assert said in refused.value.message
    assert "docs/state.md" in refused.value.remedy


def test_an_old_copy_is_refused_by_the_run_itself_and_nothing_moves(
    ran: tuple[StateFlow, Path], flow: StateFlow
) -> None:
    number, folder = flow.last()
    before = (flow.stored_batches(), flow.rows())
    shutil.rmtree(flow.root)
    shutil.copytree(ran[1], flow.root)
    (old,) = flow.root.iterdir()
    old.rename(flow.root / folder)  # of the same name, even
    flow.send(spread(range(200, 210)))
    said = rf"is {number} of stream .* ends with batch \d+"
    with pytest.raises(CheckpointMismatch, match=said):
        plan_pipeline(load(flow.declare()), offline=False)
    with pytest.raises(CheckpointMismatch, match=said):
        flow.run()
    assert (flow.stored_batches(), flow.rows()) == before


def test_positions_that_were_put_elsewhere_do_not_fit_the_state(flow: StateFlow) -> None:
    where = "pipeline = %s AND partition = 0"
    flow.sql(f"UPDATE fencepost.positions SET position = position - 1 WHERE {where}", flow.name)
    with pytest.raises(CheckpointMismatch, match="the stored positions are elsewhere"):
        judged(flow)
    flow.sql(f"UPDATE fencepost.positions SET position = position + 1 WHERE {where}", flow.name)
    judged(flow)


def test_a_checkpoint_with_history_is_no_other_pipelines(flow: StateFlow) -> None:
    other = StateFlow(flow.stack, flow.folder)
    shutil.copytree(flow.root, other.root)
    with pytest.raises(CheckpointMismatch, match="no batch of a stream has landed, but the checkpoint"):
        judged(other)


@pytest.mark.proof
def test_a_pipeline_that_read_without_state_does_not_begin_with_an_empty_one(stack: Stack, tmp_path: Path) -> None:
    flow = StateFlow(stack, tmp_path)
    flow.send(spread(range(10)))
    flow.run(checkpoint=None, transform={"sql": 'SELECT at AS start, "user", id AS n, v FROM events'.replace('"', "`")})
    with pytest.raises(CheckpointMismatch, match="has read without keeping state until now"):
        flow.run()
    assert len(flow.rows()) == 10


@pytest.mark.proof
def test_a_state_does_not_begin_over_a_table_with_rows(stack: Stack, tmp_path: Path) -> None:
    flow = StateFlow(stack, tmp_path)
    flow.sql(f"CREATE TABLE {flow.name} AS SELECT now() AS start, 'a' AS \"user\", 1::bigint AS n, 1::bigint AS v")
    flow.send(spread(range(10)))
    with pytest.raises(PositionLost, match="holds rows"):
        flow.run()
    assert flow.positions() == {}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "s3a://bucket/state": ({}, "it must be a path"),
    "state": ({"engine": "python", "transform": None}, "engine: spark"),
    "kept": ({"on_error": "dead_letter"}, "on_error: stop"),
    "stood": ({"transform": {"spark": "made.py:made", "output_mode": "complete"}}, "use update"),
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_does_not_go_with_a_checkpoint_is_refused_in_the_file(flow: StateFlow, path: str) -> None:
    parts, said = REFUSED[path]
    with pytest.raises(Usage, match=said):
        load(flow.declare(checkpoint=path, **parts))


def test_a_transform_that_keeps_nothing_needs_no_checkpoint(flow: StateFlow) -> None:
    with pytest.raises(Usage, match="nothing in the transform keeps state"):
        flow.run(transform={"sql": "SELECT id FROM events"})


def test_positions_of_a_pipeline_with_state_are_not_set_by_hand(flow: StateFlow) -> None:
    with pytest.raises(Usage, match="keeps state, which belongs to the positions") as refused:
        propose(load(flow.declare()), "earliest")
    assert "docs/state.md" in refused.value.remedy
