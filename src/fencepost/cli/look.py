"""`fencepost status` and `fencepost peek`: what a pipeline has done, without touching it."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, say, shortened
from fencepost.cli.pipelines import Subject, about_pipeline
from fencepost.machine.counting import count


@about_pipeline
def status(subject: Subject, output: FormatOption = OutputFormat.TEXT) -> None:
    """Show offset, lag and owner of each partition, the rate, and the last batch."""
    from fencepost.admin.status import pipeline_status

    found = pipeline_status(subject.declared())
    if output is OutputFormat.JSON:
        emit_json(asdict(found))
        return
    rows = [[at.topic, at.partition, at.position, at.end, at.lag, at.owner, at.epoch] for at in found.partitions]
    emit_table(["topic", "partition", "position", "end", "lag", "owner", "epoch"], rows)
    say()
    say(f"{found.pipeline}, {found.guarantee}: lag {found.lag:,}")
    if found.taken_out:
        say(f"no longer read, positions kept: {', '.join(found.taken_out)}")
    if found.rows is not None:
        last = found.last_batch.isoformat(timespec="seconds") if found.last_batch else "never"
        say(
            f"{found.rate:,.0f} rows/s over the last minute, {count(found.rows, 'row')} landed, "
            f"{found.dead:,} dead-lettered, last batch {last}"
        )
    if found.uncounted:
        say(f"not counted: {count(found.uncounted, 'offset')}, whose position moved before anything was written")


@about_pipeline
def peek(
    subject: Subject,
    most: Annotated[int, typer.Option("--most", "-n", min=1, max=10_000, help="Most rows to show.")] = 10,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show the last rows of the sink. Long values are cut, with their size; as JSON, one object per row, nothing is."""
    from fencepost.sinks.kind import CanBeLookedAt, require_able

    pipeline = subject.declared()
    kind = require_able(pipeline.sink.kind, CanBeLookedAt, pipeline.sink.format, "show its last rows")
    names, rows = kind.last_rows(pipeline.job, most)
    if output is OutputFormat.JSON:
        for row in rows:
            emit_json(dict(zip(names, row, strict=True)))
    else:
        emit_table(names, [[shortened(value) for value in row] for row in rows])
