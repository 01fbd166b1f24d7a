"""The five moments of a Kafka transaction between which a writer can die, stall or be replaced."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

from fencepost.kafka.producer import Client


class Point(StrEnum):
    AFTER_INIT = "init"
    AFTER_BEGIN = "begin"
    AFTER_PRODUCE = "produce"  # every record is in the log
    AFTER_OFFSETS = "offsets"
    BEFORE_COMMIT = "commit"


def stepping(act: Callable[[Point], object]) -> type[Client]:
    """A client that says where it is."""

    class Stepping(Client):
        def begin(self) -> None:
            super().begin()
            act(Point.AFTER_INIT)

        def begin_transaction(self) -> None:
            super().begin_transaction()
            act(Point.AFTER_BEGIN)

        def drain(self, enough: Callable[[], bool] = lambda: False) -> None:
            super().drain(enough)
            act(Point.AFTER_PRODUCE)

        def send_offsets(self, offsets: list[Any], group: object) -> None:
            super().send_offsets(offsets, group)
            act(Point.AFTER_OFFSETS)

        def commit(self) -> None:
            act(Point.BEFORE_COMMIT)
            super().commit()

    return Stepping
