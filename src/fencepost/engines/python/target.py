"""Where the Python engine's rows go: the sink of the pipeline file, prepared and checked once per run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

from fencepost.engines.python.columns import EventRows, letters
from fencepost.engines.python.offset_store import Messages
from fencepost.engines.python.sink_offset_store import RowMaker
from fencepost.errors import Poison
from fencepost.model import TopicPartition
from fencepost.rules.findings import require
from fencepost.rules.sinks import merge_findings, require_key, require_letters, sink_findings
from fencepost.rules.topics import loop_findings
from fencepost.sinks.kind import TakesRecords, Target
from fencepost.spec import OnError, PipelineSpec

PARSE = "fix the transform: take the raw value, without source.schema, and parse it there"
TO_A_TOPIC = f"{PARSE}; or set on_error: dead_letter and dead_letters: {{topic: NAME}}"


@dataclass(frozen=True)
class RowTarget:
    """A sink that is prepared, and what makes its rows."""

    sink: Target
    make_rows: RowMaker
    mirrored: bool  # do the group's offsets only show the positions? Else they are the ledger


def open_target(spec: PipelineSpec, rows: EventRows) -> RowTarget:
    """Make what is missing, and compare what is there. Raises Usage where it does not fit the rows."""
    kind, merge, provenance = spec.sink.kind, spec.sink.options.merge, rows.shape.provenance
    able = kind.capabilities
    require_key(merge, rows.columns.names, provenance)
    findings = [*sink_findings(able), *merge_findings(merge, provenance)]
    require(spec.guarantee, [*findings, *loop_findings(spec.source.origins, spec.sink.options.topics_written)])
    if spec.on_error is OnError.DEAD_LETTER:
        require_letters(able, provenance, spec.dead_letters.topic)
    if isinstance(kind, TakesRecords) and rows.shape.arrow is None:  # no need to make columns of them
        return RowTarget(kind.prepare_records(spec.job, rows.columns), _messages, not able.group_ledger)
    if able.dead_letters and not able.letter_topic:
        return RowTarget(kind.prepare(spec.job, rows.columns), rows, not able.group_ledger)
    make_rows = partial(_without_letters, rows, TO_A_TOPIC if able.letter_topic else PARSE)
    return RowTarget(kind.prepare(spec.job, rows.columns), make_rows, not able.group_ledger)


def _without_letters(
    rows: EventRows, remedy: str, place: TopicPartition, messages: Messages, aside: Mapping[int, str]
) -> Iterator[Any]:
    """There is no place for dead letters beside the target unless one is named, so nobody is told to use just that."""
    try:
        yield from rows(place, messages, aside)
    except Poison as poison:
        poison.remedy = remedy
        raise


def _messages(_place: TopicPartition, messages: Messages, aside: Mapping[int, str]) -> Any:
    """As they came; those that are bad in front, as dead letters."""
    if not aside:
        return messages
    bad = [message for message in messages if message.offset() in aside]
    return chain([letters(bad, aside, flat=False)], (one for one in messages if one.offset() not in aside))
