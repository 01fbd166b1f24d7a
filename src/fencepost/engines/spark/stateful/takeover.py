"""The checkpoint of a new term: the last one, judged by what the ledger holds, and forked. Nothing begins empty in
silence."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fencepost import fence
from fencepost.engines.spark.stateful import folders
from fencepost.engines.spark.stateful.checkpoint import Checkpoint, beginning, ends_of
from fencepost.errors import CheckpointMismatch, PositionLost, Refused
from fencepost.model import StreamBatch, Tenure, TopicPartition
from fencepost.sinks.kind import KeepsStreams, Store, require_streams
from fencepost.spec import PipelineSpec

BEFORE_ALL = -1  # the number of no batch: the stream has begun, and nothing has landed
ANEW = "build the state anew, into an empty table: fencepost state rebuild --to earliest (docs/state.md)"
WAYS_OUT = f"bring the folder back as it was, whole; or {ANEW}"
WRITABLE = "see that its folder can be written to, and run again"


@dataclass(frozen=True)
class OwnCheckpoint:
    """Of one term: where its state is, and the batch that it follows."""

    root: Path
    folder: Path
    last: StreamBatch
    base: Path | None  # what it was made from


@dataclass(frozen=True)
class Judge:
    """Whether what is at `root` fits what the ledger holds of the pipeline."""

    root: Path
    kind: KeepsStreams
    store: Store
    pipeline: str

    def judged(self, positions: Mapping[TopicPartition, int]) -> tuple[StreamBatch | None, Checkpoint | None]:
        """The last batch that landed, and the checkpoint that it left; None: there is nothing yet.

        `positions`: as stored. Raises CheckpointMismatch where they do not fit each other, PositionLost where rows are
        there of which no state knows.
        """
        last = self.kind.last_batch(self.store, self.pipeline)
        with usable(self.root):
            return self._judged(last, positions)

    def _judged(
        self, last: StreamBatch | None, positions: Mapping[TopicPartition, int]
    ) -> tuple[StreamBatch | None, Checkpoint | None]:
        if last is None or last.number == BEFORE_ALL:
            self._require_no_history()
            if last is None or last.offsets != beginning(positions):
                self._require_nothing_moved()
            return last, None
        if not folders.is_name(last.checkpoint):
            raise self._unfit(last, "is no folder of a checkpoint")
        checkpoint = Checkpoint(self.root / last.checkpoint)
        self._require_fit(checkpoint, last)
        self._require_positions(last, positions)
        return last, checkpoint

    def _require_fit(self, checkpoint: Checkpoint, last: StreamBatch) -> None:
        number = last.number
        planned = checkpoint.planned(number)
        if checkpoint.query() != last.query:
            found = checkpoint.query()
            raise self._unfit(last, f"is of stream {found}" if found else "is not there, or names no stream")
        if planned is None:
            held = checkpoint.numbers("offsets")
            raise self._unfit(last, f"ends with batch {held[-1]}" if held and held[-1] < number else "does not hold it")
        if (planned.offsets, planned.watermark) != (last.offsets, last.watermark):
            raise self._unfit(last, f"has another batch {number}: {planned.offsets}, watermark {planned.watermark}")
        if number > 0 and checkpoint.committed(number - 1) is None:
            raise self._unfit(last, f"does not say that batch {number - 1} is done")
        if checkpoint.committed(number) not in (None, last.next_watermark):
            raise self._unfit(last, f"has another watermark after batch {number}: {checkpoint.committed(number)}")
        if (part := checkpoint.lacks_state(number + 1)) is not None:
            raise self._unfit(last, f"lacks the state after batch {number} in {part}")

    def _require_positions(self, last: StreamBatch, positions: Mapping[TopicPartition, int]) -> None:
        ends, read = ends_of(last.offsets), {at.topic for at in positions}
        if gone := sorted({at.topic for at in ends} - read):
            raise CheckpointMismatch(
                f"pipeline {self.pipeline!r}: its state was made from {', '.join(gone)}, too, which the file does not "
                "name any more",
                f"name it again under source; or {ANEW}",
            )
        moved = [at for at, end in ends.items() if positions.get(at) != end]
        if moved:
            where = ", ".join(f"{at} at {positions.get(at)} and not at {ends[at]}" for at in sorted(moved))
            raise self._unfit(last, f"is where the rows are, and the stored positions are elsewhere ({where})")

    def _unfit(self, last: StreamBatch, what: str) -> CheckpointMismatch:
        return CheckpointMismatch(
            f"pipeline {self.pipeline!r}: the last batch that landed is {last.number} of stream {last.query}, and the "
            f"checkpoint {self.root / last.checkpoint} {what}",
            WAYS_OUT,
        )

    def _require_no_history(self) -> None:
        for checkpoint in folders.checkpoints(self.root):
            if done := checkpoint.numbers("commits"):
                raise CheckpointMismatch(
                    f"pipeline {self.pipeline!r}: no batch of a stream has landed, but the checkpoint "
                    f"{checkpoint.folder} has come to batch {done[-1]} of stream {checkpoint.query()}",
                    "it is another pipeline's, or of another database: name another folder as checkpoint, or remove it",
                )

    def _require_nothing_moved(self) -> None:
        """A state that begins empty would not know the records before."""
        moved = {at: held.position for at, held in self.store.stored(self.pipeline).items() if held.moved_at}
        if moved:
            where = ", ".join(f"{at} at {position}" for at, position in sorted(moved.items()))
            raise CheckpointMismatch(
                f"pipeline {self.pipeline!r} has read without keeping state until now ({where}): a state that begins "
                "empty would not know what was read before",
                "give the pipeline with the checkpoint another name and an empty table: it begins at source.start",
            )
        self.kind.require_no_rows(self.store, self.pipeline)


def judge_of(spec: PipelineSpec, store: Store) -> Judge:
    """Of a pipeline with a checkpoint. Raises Usage where its sink cannot keep state."""
    root = Path(os.path.realpath(Path(spec.folder, spec.checkpoint or "", spec.name)))
    return Judge(root, require_streams(spec.sink.kind), store, spec.name)


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Raises Refused where the system does not let us have it, or make it."""
    try:
        yield
    except OSError as trouble:
        raise Refused(f"the checkpoint {folder} cannot be used: {trouble.strerror}", WRITABLE) from trouble


@contextmanager
def not_by_hand() -> Iterator[None]:
    """Positions that are lost are set by hand elsewhere: here a state belongs to them."""
    try:
        yield
    except CheckpointMismatch:
        raise
    except PositionLost as lost:
        lost.remedy = ANEW
        raise


def own_checkpoint(judge: Judge, tenure: Tenure) -> OwnCheckpoint:
    """Whoever had the positions is fenced by now, and the ledger stands still. Raises Fenced where we are too."""
    folder = judge.root / folders.name_for(tenure)
    try:
        last, base = judge.judged(tenure.positions)
        if last is None or base is None:
            return OwnCheckpoint(judge.root, folder, _begun(judge, tenure, folder), None)
        with usable(folder):
            folders.fork(base, folder, last, tenure.positions)
        return OwnCheckpoint(judge.root, folder, last, base.folder)
    except (CheckpointMismatch, Refused):
        fence.require_own(judge.store.stored(tenure.pipeline), tenure)  # a successor clears away what we look for
        raise


def _begun(judge: Judge, tenure: Tenure, folder: Path) -> StreamBatch:
    """Rows of a batch that did not land may come before it is noted anywhere: that it begins is noted before."""
    first = StreamBatch("", BEFORE_ALL, beginning(tenure.positions), 0, 0, folder.name)
    judge.kind.begin_stream(judge.store, tenure, first)
    with usable(folder):
        folder.mkdir(parents=True)
    return first
