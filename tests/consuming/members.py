"""Consumers in threads of this process, and what is seen of their group."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from consuming.groups import Group
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.events import Event
from fencepost.kafka.groups import describe_group
from fencepost.run.consume import run_handler


@contextmanager
def at_work(member: Consumption) -> Iterator[None]:
    """A member in a thread of its own, which has left its group when the block ends."""
    thread = threading.Thread(target=run_handler, args=(member,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        member.stop.set()
        thread.join(60)
    assert not thread.is_alive()


def numbers(events: list[Event]) -> list[int]:
    return [int(event.value or b"") for event in events]


def committed(group: Group) -> dict[int, int | None]:
    return {one.partition: one.position for one in describe_group(group.cluster, group.name).partitions}
