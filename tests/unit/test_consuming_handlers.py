"""A handler that does not do its work says so: no event counts as processed that it has not seen."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator
from threading import Event as Flag
from typing import Any

import pytest

from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.events import Event
from fencepost.engines.python.handler import HandlerFailed, call
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.errors import Usage
from fencepost.guarantee import Guarantee

EVENTS = [Event("orders", 0, offset, None, b"", (), None) for offset in (4, 5)]


async def coroutine(_events: list[Event]) -> None: ...


async def async_generator(_events: list[Event]) -> AsyncIterator[int]:
    yield 1


def generator(_events: list[Event]) -> Iterator[int]:
    yield 1


class Constructed:
    def __init__(self, _events: list[Event]) -> None: ...


@pytest.mark.parametrize("handler", [coroutine, async_generator, generator, Constructed])
def test_what_would_do_nothing_when_it_is_called_is_refused_before_anything_moves(handler: Any) -> None:
    settings = ConsumerSettings({"bootstrap.servers": "127.0.0.1:1"}, "orders", "group", Guarantee.AT_LEAST_ONCE)
    with pytest.raises(Usage, match="the handler is a"):
        Consumption(settings, handler)


@pytest.mark.parametrize("handler", [coroutine, async_generator, generator])
@pytest.mark.filterwarnings("error")
def test_what_only_promises_to_do_it_is_refused_when_it_is_called(handler: Any) -> None:
    with pytest.raises(Usage, match="none of its code has run"):
        call(handler, EVENTS, 3, Flag())


def test_a_handler_that_calls_sys_exit_has_failed_and_is_not_called_again() -> None:
    calls: list[Any] = []

    def handler(events: list[Event]) -> None:
        calls.append(events)
        sys.exit(0)

    with pytest.raises(
        HandlerFailed, match=r"offset 4 and 1 after it: it called sys.exit\(0\) \(.* line \d+\)"
    ) as failed:
        call(handler, EVENTS, 3, Flag())
    assert (len(calls), failed.value.exit_code) == (1, 1)


def test_an_error_is_one_line_with_its_place() -> None:
    def handler(_events: list[Event]) -> None:
        raise ValueError("two\nlines")

    with pytest.raises(
        HandlerFailed, match=r"raised ValueError for .*: two lines \(.*test_consuming_handlers.py line \d+\)"
    ):
        call(handler, EVENTS, 0, Flag())


def test_a_handler_that_works_is_called_once() -> None:
    calls: list[Any] = []
    handler: Callable[[list[Event]], object] = calls.append
    call(handler, EVENTS, 3, Flag())
    assert calls == [EVENTS]
