"""Findings of several events, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from fencepost.audit.findings import Finding


def each(findings: Iterable[Finding]) -> Iterator[Finding]:
    """A range has as many events as it says, at offsets or sequence numbers that follow each other."""
    for one in findings:
        if one.events == 1:
            yield one
        elif one.offset is not None and one.last_offset is not None:
            assert one.last_offset - one.offset + 1 == one.events
            for offset in range(one.offset, one.last_offset + 1):
                yield replace(one, offset=offset, id=None, events=1, last_offset=None, last_id=None)
        else:
            producer, first = (one.id or "").split(":")
            assert one.last_id == f"{producer}:{int(first) + one.events - 1}"
            for number in range(int(first), int(first) + one.events):
                yield replace(one, id=f"{producer}:{number}", events=1, last_offset=None, last_id=None)
