"""What a store tells of every pipeline that keeps its positions there, for somebody who has none of their files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from fencepost.fence import Stored
from fencepost.model import Span, TopicPartition
from fencepost.sinks.auditing import Commit


@dataclass(frozen=True)
class KnownPipeline:
    """One pipeline, as its ledger has it."""

    pipeline: str
    place: str  # of the ledger in its store
    epoch: int
    guarantee: str | None  # under which it ran last
    taken_at: datetime | None
    seen_at: datetime | None  # when its owner last said that it lives
    stored: Stored
    rows_last_minute: int
    last_batch: datetime | None


@dataclass(frozen=True)
class TimedCommit:
    """A commit, and when it landed; of several that were folded together the last."""

    commit: Commit
    landed_at: datetime


@dataclass(frozen=True)
class CommitsOver:
    """What is on record about some offsets of a partition, at one moment."""

    position: int | None  # None: the pipeline has never been there
    commits: Sequence[TimedCommit]  # the newest first, at most a thousand


@runtime_checkable
class KnowsPipelines(Protocol):
    """Its ledger can be read without a pipeline's file. Nothing here writes."""

    def pipelines(self, where: str) -> Sequence[KnownPipeline]:
        """`where`: how the store is reached, in its own words. Raises Unreachable, Refused, Usage."""

    def commits_over(self, where: str, one: KnownPipeline, at: TopicPartition, span: Span) -> CommitsOver:
        """Those that covered some of these offsets."""

    def commits_since(self, where: str, one: KnownPipeline, since: datetime) -> Sequence[TimedCommit]:
        """The newest ones, at most some thousand."""
