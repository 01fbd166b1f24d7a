"""What a carrier tells while it runs, in a file: read by the lab when it likes, and kept with the run."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from fencepost.engines.listener import BatchDone, News, Skipped, Started, Waiting
from fencepost.machine.plain_json import dumped


class NewsFile:
    """One line for each thing, with the time at which it was told."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tell(self, event: str, **facts: Any) -> None:
        with self._path.open("a") as file:
            file.write(dumped({"event": event, "time": time.time(), **facts}) + "\n")

    def hear(self, news: News) -> None:
        match news:
            case BatchDone():
                self.tell("batch", rows=news.rows, dead=news.dead, records=news.records, already=news.already)
            case Started():
                self.tell("started", partitions=[at.partition for at in news.positions])
            case Waiting():
                self.tell("waiting", trouble=news.trouble)
            case Skipped():
                self.tell("skipped", partition=str(news.partition), start=news.span.start, end=news.span.end)
            case _:
                self.tell(type(news).__name__.lower())


def read_news(path: Path, event: str = "") -> list[dict[str, Any]]:
    """What was told so far, whole lines only."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [one for one in found if event in ("", one["event"])]
