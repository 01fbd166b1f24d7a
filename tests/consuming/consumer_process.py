"""One consumer as a process: `python -m consuming.consumer_process WORK`, with the work as JSON."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from fencepost.delivery import Observer, nobody
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.events import Event
from fencepost.engines.python.settings import ConsumerSettings, Per
from fencepost.errors import FencepostError
from fencepost.guarantee import Guarantee
from fencepost.lab.crash import CrashAction, CrashPoint
from fencepost.model import Step, TopicPartition
from fencepost.run.consume import run_handler

Dies = list[str | int]  # before or after the effect of an event, by its number


def effect(path: str, slowly: float, dies: Dies | None = None) -> Any:
    """A handler that appends each event's number to a file."""

    def handle(events: list[Event]) -> None:
        with Path(path).open("a") as file:
            for event in events:
                number = int(event.value or b"")
                if dies == ["before", number]:
                    os.kill(os.getpid(), signal.SIGKILL)
                file.write(f"{number}\n")
                file.flush()
                os.fsync(file.fileno())
                if slowly:
                    time.sleep(slowly)  # slow processing, not a wait for anything
                if dies == ["after", number]:
                    os.kill(os.getpid(), signal.SIGKILL)

    return handle


def insert(table: str, slowly: float) -> Any:
    """A handler that writes through the transaction that it is given."""

    def handle(events: list[Event], tx: Any) -> None:
        rows = [(int(event.value or b"0"),) for event in events]
        tx.executemany(f"INSERT INTO {table} VALUES (%s)", rows)
        if slowly:
            time.sleep(slowly)  # slow processing, not a wait for anything

    return handle


def main() -> int:
    work = json.loads(sys.argv[1])
    settings = ConsumerSettings(
        {**work["kafka"], **work.get("settings", {})},
        work["topic"],
        work["group"],
        Guarantee(work["guarantee"]),
        **({"commit": work["commit"]} if "commit" in work else {}),
        per=Per(work["per"]) if work.get("per") in list(Per) else float(work.get("per", 0)) or Per.BATCH,
        batch=work.get("batch", 10),
    )
    see: Observer = nobody
    if "crash" in work:
        step, deed, witness, number = work["crash"]
        see = CrashPoint(Step(step), TopicPartition(work["topic"], 0), CrashAction(deed), Path(witness), number)
    slowly = work.get("slowly", 0.0)
    handler = insert(work["table"], slowly) if "dsn" in work else effect(work["effects"], slowly, work.get("dies"))
    try:
        run_handler(Consumption(settings, handler, work.get("dsn"), see), once=work.get("once", True))
    except FencepostError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
