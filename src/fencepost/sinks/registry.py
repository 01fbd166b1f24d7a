"""Which sinks there are: a line each, and whatever other packages register as entry points of `fencepost.sinks`.

[project.entry-points."fencepost.sinks"]
sqlite = "fencepost_sqlite:KIND"
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import cast

from fencepost.errors import Usage
from fencepost.sinks.kind import SinkKind

GROUP = "fencepost.sinks"
_OURS = {
    "postgres": "fencepost.sinks.postgres.kind:KIND",
    "kafka": "fencepost.sinks.kafka.kind:KIND",
}


def names() -> list[str]:
    """What `sink.format` may be; ours come first, and nobody can replace them."""
    return [*_OURS, *sorted(_others().keys() - _OURS.keys())]


@cache
def kind(name: str) -> SinkKind:
    """Raises Usage for a name that nobody registered, and for one whose package does not load."""
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        return cast(SinkKind, getattr(import_module(module), attribute))
    if name not in _others():
        raise Usage(f"there is no sink {name!r}", f"one of {', '.join(names())}")
    try:
        return cast(SinkKind, _others()[name].load())
    except Exception as error:
        raise Usage(
            f"sink {name!r} does not load: {type(error).__name__}: {error}", f"mend {_others()[name].value}"
        ) from error


@cache
def _others() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}
