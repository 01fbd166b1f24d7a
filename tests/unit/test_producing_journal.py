"""The journal: what was meant, before it was sent, and what became of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import Usage
from fencepost.model import Outcome
from fencepost.producing.delivery_reports import DeliveryReport, Settled
from fencepost.producing.journal import Journal


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_line_is_on_disk_when_the_call_returns(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal(path, "orders", "exactly-once")
    journal.producer = "9f2c"
    journal.sent(1, 500)
    header = {"journal": 1, "topic": "orders", "producer": "9f2c", "guarantee": "exactly-once"}
    assert lines(path) == [header, {"sent": [1, 500]}]
    journal.sent(501, 501, "order-17")
    assert lines(path)[1:] == [{"sent": [1, 500]}, {"sent": [501, 501], "id": "order-17"}]
    parts = [
        Settled(1, 500, DeliveryReport(Outcome.ACKED)),
        Settled(501, 501, DeliveryReport(Outcome.REFUSED, "too large")),
    ]
    journal.settled(parts)
    journal.transaction("begin", 3)
    assert lines(path)[3:] == [{"acked": [1, 500]}, {"refused": [501, 501], "why": "too large"}, {"begin": 3}]


@pytest.mark.parametrize("before", ['{"journal": 1}\n'])
def test_a_session_after_a_torn_line_goes_on_without_it(tmp_path: Path, before: str) -> None:
    path = tmp_path / "journal"
    path.write_text(before + '{"sent": [1, 5')
    Journal(path, "orders", "exactly-once").sent(1, 1)
    assert path.read_text().startswith(before)
    assert lines(path)[-1] == {"sent": [1, 1]}


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="cannot be written: Is a directory"):
        Journal(tmp_path, "orders", "exactly-once")
