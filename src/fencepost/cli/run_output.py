"""What `fencepost run` shows: a line that moves on a terminal, plain lines elsewhere, JSON lines for scripts."""

from __future__ import annotations

from collections.abc import Mapping
from time import monotonic
from typing import Any

from fencepost.cli.output import emit_json, note, progress_console
from fencepost.engines.listener import BatchDone, News, NotDrained, Skipped, Started, Waiting
from fencepost.machine.counting import count
from fencepost.machine.printable import visible
from fencepost.model import TopicPartition


class RunOutput:
    """Listens to a run. Rates are of offsets, over the last batches."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._rows = 0
        self._told_reading = False
        self._marks: list[tuple[float, int]] = []  # when, and the sum of the positions then

    def __call__(self, news: News) -> None:
        if self._as_json:
            emit_json(_json(news))
        match news:
            case Started():
                self._marks = [(monotonic(), sum(news.positions.values()))]
                self._reading(news.epoch)
            case BatchDone():
                self._batch(news)
            case Waiting():
                then = "waiting" if news.seconds is None else f"trying again in {news.seconds:.0f} s"
                self._told_reading = False
                self._note(f"{news.trouble}; {then}")
            case Skipped() if not self._as_json:
                note(f"{news.partition} {news.span}: deleted before they were read: skipped")
            case NotDrained() if not self._as_json:
                self.end()
                note(f"not drained: {news}: {news.remedy}")

    def _reading(self, epoch: int) -> None:
        """Once at the start and after each trouble, though a member of a group takes its partitions over one by one."""
        if not self._told_reading:
            self._told_reading = True
            self._note(f"reading (epoch {epoch})")

    def _batch(self, done: BatchDone) -> None:
        self._rows += done.rows
        self._marks = [*self._marks[-9:], (monotonic(), self._marks[-1][1] + done.records)]
        (since, before), (now, after) = self._marks[0], self._marks[-1]
        rate = (after - before) / max(now - since, 0.001)
        text = f"{count(self._rows, 'row')} landed, {rate:,.0f} records/s"
        if done.lag is not None:
            text += f", {done.lag:,} to go" + (f" ({done.lag / rate:,.0f} s)" if rate and done.lag else "")
        text += f", {done.dead:,} dead-lettered" if done.dead else ""
        self._note(text + (f", staged ({done.staged})" if done.staged else ""))
        if done.complaint and not self._as_json:
            note(f"the consumer group does not show the newest positions: {done.complaint}")

    def _note(self, text: str) -> None:
        if self._as_json:
            return
        if progress_console.is_terminal:
            progress_console.file.write(f"\r\x1b[2K{visible(text)}")
            progress_console.file.flush()
        else:
            note(text)

    def end(self) -> None:
        if not self._as_json and progress_console.is_terminal:
            progress_console.print()


def _json(news: News) -> dict[str, Any]:
    match news:
        case Started():
            return {"event": "started", "run": str(news.run), "epoch": news.epoch, "positions": texts(news.positions)}
        case BatchDone():
            return {
                "event": "batch",
                "number": news.number,
                "rows": news.rows,
                "dead": news.dead,
                "already": news.already,
                "staged": news.staged,
                "lag": news.lag,
                "complaint": news.complaint or None,
                "positions": texts(news.positions),
            }
        case Waiting():
            seconds = None if news.seconds is None else round(news.seconds, 1)
            return {"event": "waiting", "trouble": news.trouble, "seconds": seconds}
        case Skipped():
            span = {"start": news.span.start, "end": news.span.end}
            return {"event": "skipped", "partition": str(news.partition), **span}
        case NotDrained():
            held = {str(at): news.holders.get(at) for at in sorted(news.offsets)}
            said = {"moving": news.moving, "trouble": str(news), "remedy": news.remedy}
            return {"event": "left", "offsets": texts(news.offsets), "holders": held, **said}


def texts(positions: Mapping[TopicPartition, int]) -> dict[str, int]:
    return {str(partition): position for partition, position in sorted(positions.items())}
