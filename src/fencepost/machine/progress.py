"""How the local stack tells what it is doing: notes and bars on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from fencepost.machine.printable import visible

Advance = Callable[[int], None]
"""Tells a bar how much is done by now."""


class Progress(Protocol):
    def note(self, text: str) -> None:
        """One line about what happens now."""

    def bar(self, label: str, total: int) -> AbstractContextManager[Advance]:
        """A bar while the block runs; the block calls what it is given with how much is done by now."""


class Silent:
    """For libraries and tests."""

    def note(self, text: str) -> None:
        pass

    @contextmanager
    def bar(self, label: str, total: int) -> Iterator[Advance]:  # noqa: ARG002
        yield lambda _done: None


class Lines:
    """Plain lines on stderr: what a log file or a pipe gets."""

    def note(self, text: str) -> None:
        sys.stderr.write(visible(text) + "\n")
        sys.stderr.flush()

    @contextmanager
    def bar(self, label: str, total: int) -> Iterator[Advance]:  # noqa: ARG002
        self.note(label)
        yield lambda _done: None


class Terminal(Lines):
    """A moving bar, where somebody is looking at it."""

    @contextmanager
    def bar(self, label: str, total: int) -> Iterator[Advance]:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bar

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Bar(*columns, console=Console(stderr=True, highlight=False)) as shown:
            task = shown.add_task(visible(label), total=total)
            yield lambda done: shown.update(task, completed=done)


def for_stderr() -> Progress:
    """What fits where stderr goes."""
    return Terminal() if sys.stderr.isatty() else Lines()
