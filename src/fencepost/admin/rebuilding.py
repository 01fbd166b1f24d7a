"""State that is lost or unfit, built anew: the records that made it are read again, into a table that is empty."""

from __future__ import annotations

from contextlib import closing
from itertools import count
from pathlib import Path

from fencepost.admin.positions import Repositioning, propose
from fencepost.engines.spark.stateful.takeover import judge_of, usable
from fencepost.errors import Usage
from fencepost.kafka.offsets import Start
from fencepost.spec import PipelineSpec


def propose_rebuilding(spec: PipelineSpec, to: Start) -> Repositioning:
    """Where it would begin, and what that repeats or skips. Changes nothing."""
    if spec.checkpoint is None:
        raise Usage(f"pipeline {spec.name!r} keeps no state: it has no checkpoint", "put its positions elsewhere")
    return propose(spec, to, anew=True)


def rebuild(spec: PipelineSpec, proposal: Repositioning) -> Path | None:
    """A run that is under way ends as fenced; the next one begins with an empty state. Where the old one is kept.

    The ledger goes first: a crash before the folder is put aside leaves one that is refused, which says to remove it.
    """
    with closing(spec.sink.kind.ledger(spec.job)) as ledger:
        judge = judge_of(spec, ledger)
        judge.kind.begin_anew(ledger, spec.name, proposal.moved, proposal.topic_ids, proposal.stays)
    with usable(judge.root):
        return _put_aside(judge.root)


def _put_aside(root: Path) -> Path | None:
    if not root.exists():
        return None
    names = (root.with_name(f"{root.name}.before-{number}") for number in count(1))
    aside = next(path for path in names if not path.exists())
    return root.rename(aside)
