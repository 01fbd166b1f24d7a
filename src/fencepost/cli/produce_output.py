"""What `fencepost produce` shows: a bar on a terminal, totals at the end, JSON for scripts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Any

import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from fencepost.cli.output import complain, emit_json, note, progress_console, say
from fencepost.errors import FencepostError
from fencepost.guarantee import Guarantee
from fencepost.machine.counting import count
from fencepost.producing.resume import ProduceJob, Run
from fencepost.producing.source_store import SourceTotals
from fencepost.producing.sources.files import Files
from fencepost.producing.sources.piped import Piped
from fencepost.producing.sources.source import Source
from fencepost.rules.producer import Acks

_SHOWN = 20  # broken lines and refused events that are named one by one


class ProduceOutput:
    """The outside of one run."""

    def __init__(self, as_json: bool, job: ProduceJob, source: Source, count: int | None) -> None:
        self._as_json = as_json
        self._job = job
        self._source = source
        self._count = count

    def show(self, run: Run) -> None:
        """Carry, and say what became of it. The totals come out whatever happens."""
        try:
            with self._bar(run) as see:
                run.carry(see)
        except FencepostError as error:
            self._report(run, error)
            raise
        self._report(run, None)

    def _report(self, run: Run, error: FencepostError | None) -> None:
        totals = run.totals
        skipped = self._source.broken if isinstance(self._source, Files | Piped) else []
        for file, line, reason in skipped[:_SHOWN]:
            note(f"skipped: {file} line {line}: {reason}")
        for number, reason in totals.refusals[:_SHOWN]:
            note(f"refused: event {number}: {reason}")
        if self._as_json:
            emit_json(self._summary(run, totals, len(skipped), error))
        elif error is None:
            say(self._sentence(totals, run))
        if error is None and (totals.refused or skipped):
            complain(f"{count(totals.refused, 'event')} refused, {count(len(skipped), 'broken line')} skipped")
            raise typer.Exit(1)

    def _summary(self, run: Run, totals: SourceTotals, skipped: int, error: FencepostError | None) -> dict[str, Any]:
        return {
            "topic": self._job.topic,
            "guarantee": run.producer.guarantee.value,
            "sent": totals.sent,
            "acked": totals.acked,
            "refused": totals.refused,
            "unknown": totals.unknown,
            "skipped": skipped,
            "resumed_at": run.resumed_at,
            "reason": error.message if error else totals.reason or None,
        }

    def _sentence(self, totals: SourceTotals, run: Run) -> str:
        topic = self._job.topic
        if self._job.guarantee is Guarantee.AT_MOST_ONCE:
            said = f"{count(totals.unknown, 'event')} sent to {topic}; no acknowledgement was requested"
        elif self._job.guarantee is Guarantee.EXACTLY_ONCE:
            said = f"{count(totals.acked, 'event')} in {topic}, committed together with their position"
        else:
            whom = "leaders alone" if self._job.acks is Acks.LEADER else "in-sync replicas"
            said = f"{count(totals.acked, 'event')} in {topic}, acknowledged by the {whom}"
        if run.resumed_at is not None:
            before = count(run.resumed_at["number"], "line" if self._count is None else "event")
            said += f"; {before} had been sent by earlier runs"
        return said

    @contextmanager
    def _bar(self, run: Run) -> Iterator[Callable[[], None]]:
        if self._as_json or not progress_console.is_terminal:
            yield lambda: None
            return
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn(
                "{task.fields[rate]:,.0f}/s, {task.fields[acked]:,} acked, {task.fields[in_flight]:,} in flight"
            ),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=progress_console, transient=True) as shown:
            task = shown.add_task(self._job.topic, total=self._count, rate=0.0, acked=0, in_flight=0)
            begin = monotonic()

            def see() -> None:
                handed, in_flight = run.producer.totals.sent, run.producer.in_flight
                rate = handed / max(monotonic() - begin, 0.001)
                acked = self._acked(run.totals, handed - in_flight)
                shown.update(task, completed=handed, rate=rate, acked=acked, in_flight=in_flight)

            yield see

    def _acked(self, totals: SourceTotals, answered: int) -> int:
        """So far. In a transaction its commit decides; outside of one every answer counts, if any was asked for."""
        if self._job.guarantee in (Guarantee.AT_MOST_ONCE, Guarantee.EXACTLY_ONCE):
            return totals.acked
        return max(answered - totals.refused - totals.unknown, totals.acked)
