"""Proof, inside a Spark worker, that a task's input was read to its end.

The end of the iterator is not the end of the input: when anything upstream fails or the job is cancelled, Spark
closes the stream, pyarrow takes that for its end, and a writer that believes it commits half a span with the whole
span's end. Only Arrow's end-of-stream marker proves exhaustion, so the loader is replaced by one that insists on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from fencepost.errors import InputCut

END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class _Tail:
    """A readable stream that remembers the last eight bytes that were read from it."""

    closed = False

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.last = b""

    def read(self, size: int = -1) -> bytes:
        read: bytes = self._stream.read(size)
        self.last = (self.last + read[-8:])[-8:]
        return read

    def readable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def close(self) -> None:
        """The worker goes on reading from the stream after the rows: it stays open."""


class InputGuard:
    """Replaces pyspark's Arrow loader in this process; one task at a time runs in a worker."""

    def __init__(self) -> None:
        self.complete = False

    def install(self) -> None:
        from pyspark.sql.pandas import serializers

        self.complete = False
        serializers.ArrowStreamSerializer.load_stream = self._loader()  # type: ignore[method-assign]

    def require_complete(self) -> None:
        """Call it after the last row and before anything is committed."""
        if not self.complete:
            raise InputCut(
                "the task's input ended without proof that it was complete",
                "this pyspark version reads Arrow streams in a way that Fencepost was not tested with",
            )

    def _loader(self) -> Any:
        def load_stream(_serializer: object, stream: Any) -> Iterator[pa.RecordBatch]:
            tail = _Tail(stream)
            yield from pa.ipc.open_stream(tail)
            if tail.last != END_OF_STREAM:
                raise InputCut("the task's input was cut off: something before it failed, or the job was cancelled")
            self.complete = True

        return load_stream


GUARD = InputGuard()
