"""Standard output and standard error of a command: what cannot be written is an error, never lost in silence."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from typing import Any, TextIO

from fencepost.errors import FencepostError

PIPE_CLOSED = 141  # what a shell shows for SIGPIPE


class ReaderGone(FencepostError):
    """The reader of the output is gone, as after `| head -1`: the command ends, without a word."""

    exit_code = PIPE_CLOSED


class OutputFailed(FencepostError):
    """The output cannot be written: the disk is full, or it is closed."""

    exit_code = 3


class Stdout(io.TextIOBase):
    """Standard output. Raises ReaderGone or OutputFailed where a write fails, also in another's thread."""

    def __init__(self, inner: TextIO | None) -> None:
        self._inner = inner

    def write(self, text: str) -> int:
        if self._inner is None:
            raise OutputFailed("standard output is closed", "redirect it, for example to /dev/null")
        try:
            return self._inner.write(text)
        except OSError as error:
            raise self._failed(error) from error

    def flush(self) -> None:
        try:
            if self._inner is not None:
                self._inner.flush()
        except OSError as error:
            raise self._failed(error) from error

    def _failed(self, error: OSError) -> FencepostError:
        _discard(self._inner)
        if isinstance(error, BrokenPipeError):
            return ReaderGone("nobody reads the output any more")
        return OutputFailed(f"standard output cannot be written: {error.strerror}", "redirect it elsewhere")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def isatty(self) -> bool:
        return self._inner is not None and self._inner.isatty()

    def fileno(self) -> int:
        if self._inner is None:
            raise io.UnsupportedOperation("closed")
        return self._inner.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._inner.encoding if self._inner is not None else "utf-8"


class Stderr(Stdout):
    """Standard error: where it cannot be written there is nobody left to tell, and the exit code says the rest."""

    def write(self, text: str) -> int:
        with suppress(FencepostError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(FencepostError):
            super().flush()


def guard_streams() -> None:
    """Put the two in place, once per process; no text is too odd for them whatever the locale is."""
    _fill_gaps()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if not isinstance(sys.stdout, Stdout):
        sys.stdout = Stdout(sys.stdout)
    if not isinstance(sys.stderr, Stdout):
        sys.stderr = Stderr(sys.stderr)


def _fill_gaps() -> None:
    """A stream that is closed must not give its number to a connection, into which somebody would then print."""
    while (opened := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(opened)


def _discard(stream: TextIO | None) -> None:
    """What is left in its buffer goes nowhere, so that the interpreter's own last flush has nothing to complain of."""
    with suppress(OSError, ValueError):
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)
