"""Runs of the lab as it keeps them, made by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fencepost.lab.record import History

NAME = "dies-after-the-write-postgres-python-eo"
TRIAL: dict[str, Any] = {
    "setting": "exactly-once",
    "sent": 100,
    "landed": 100,
    "lost": 0,
    "duplicated": 0,
    "anomalies": {},
    "witness": {"fired": 1, "in_flight": 50, "what": "written"},
}


def verdict(judgement: str = "holds", name: str = NAME, **other: Any) -> dict[str, Any]:
    weaker = {**TRIAL, "setting": "at-least-once", "duplicated": 50, "anomalies": {"D2": 50}}
    told = {"name": name, "verdict": judgement, "reason": "clean", "tells": "it dies", "guarantee": "exactly-once"}
    more = {"guarded": TRIAL, "control": weaker, "command": f"fencepost lab run {name} --seed 1", "seed": 1}
    kind = {"fault": 7, "engine": "python", "sink": "postgres", "seconds": 3.2}
    return {**told, **more, **kind, **other}


def made(home: Path, told: dict[str, Any] | None = None, said: str = "it was killed") -> Path:
    history = History.begin(home, NAME, lambda _line: None)
    history.tell("100 events sent", kind="sent", lane="producer", run="guarded")
    history.tell(said, kind="fault", lane="driver", run="guarded")
    history.tell("drained", kind="heal", lane="driver", run="guarded")
    history.tell("90 landed", kind="counted", lane="sink", run="guarded", lost=[1, 2], doubled=[3])
    if told:
        history.end(told)
    return history.folder
