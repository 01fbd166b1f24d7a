"""How many of the driver's clients there are in this process. Each holds one of the thousand keys for the storage of
threads that a process may have, until it is gone: to be closed is not enough."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient


def living() -> int:
    return sum(isinstance(one, Consumer | Producer | AdminClient) for one in gc.get_objects())


@contextmanager
def without_the_collector() -> Iterator[None]:
    """What is gone in the block is gone because nobody refers to it any more."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
