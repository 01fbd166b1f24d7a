"""Which sinks there are: a line each, and whatever other packages register as entry points of `fencepost.sinks`.

[project.entry-points."fencepost.sinks"]
sqlite = "fencepost_sqlite:KIND"
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, cast

from fencepost.errors import Usage
from fencepost.sinks.kind import SinkKind
from fencepost.sinks.knowing import KnowsPipelines
from fencepost.sinks.options import SinkOptions

T = TypeVar("T")
GROUP = "fencepost.sinks"
_OURS = {
    "postgres": "fencepost.sinks.postgres.kind:KIND",
    "kafka": "fencepost.sinks.kafka.kind:KIND",
    "delta": "fencepost.sinks.delta.kind:KIND",
    "iceberg": "fencepost.sinks.iceberg.kind:KIND",
    "parquet": "fencepost.sinks.parquet.kind:KIND",
}
_WITH_A_LEDGER_OF_ALL = ("postgres",)
_PLAIN_FILES = {"avro", "csv", "json", "orc", "text", "xml"}  # of Spark's formats
_NEEDED = ("capabilities", "options", "settings", "columns", "fit", "prepare", "ledger")


def names() -> list[str]:
    """What `sink.format` may be; ours come first. Loads none of them."""
    return [*_OURS, *sorted(_others().keys() - _OURS.keys())]


def instead_of(name: str) -> str:
    """What there is, for somebody who named what there is not."""
    known = f"one of {', '.join(names())}"
    return f"{known} (of plain files, Parquet keeps every value as it is)" if name in _PLAIN_FILES else known


@cache
def kind(name: str) -> SinkKind:
    """Raises Usage for a name that nobody registered, or two did, and for a kind that does not load."""
    points = _others().get(name, [])
    if len(points) + (name in _OURS) > 1:
        packages = [_package(point) for point in points]
        also = ["fencepost"] if name in _OURS else []
        raise Usage(
            f"sink {name!r} is registered twice: by {' and '.join([*also, *packages])}", f"uninstall {packages[-1]}"
        )
    if name in _OURS:
        module, _, attribute = _OURS[name].partition(":")
        return cast(SinkKind, getattr(import_module(module), attribute))
    if not points:
        raise Usage(f"there is no sink {name!r}", instead_of(name))
    return _loaded(points[0])


def knowing_pipelines() -> list[KnowsPipelines]:
    """Those whose ledgers can be listed; none where their libraries are not installed. Loads no others."""
    try:
        return [one for one in map(kind, _WITH_A_LEDGER_OF_ALL) if isinstance(one, KnowsPipelines)]
    except ModuleNotFoundError:
        return []


def _loaded(point: EntryPoint) -> SinkKind:
    """A kind of another package, which may do anything when it is imported."""
    try:
        found = point.load()
    except Exception as error:
        raise _broken(point, f"{type(error).__name__}: {error}") from error
    if lacking := [name for name in _NEEDED if not hasattr(found, name)]:
        raise _broken(point, f"{point.value} is no SinkKind: it has no {', '.join(lacking)}")
    if not (isinstance(found.options, type) and issubclass(found.options, SinkOptions)):
        raise _broken(point, f"{point.value}: its options are no SinkOptions")
    return cast(SinkKind, found)


def _broken(point: EntryPoint, why: str) -> Usage:
    return Usage(
        f"sink {point.name!r} does not load: {' '.join(why.split())}", f"repair or uninstall {_package(point)}"
    )


def _package(point: EntryPoint) -> str:
    dist: Any = point.dist
    return dist.name if dist is not None else point.value


def able(what: type[T]) -> tuple[str, T]:
    """The first kind, with its name, that can do this. Raises Usage where there is none."""
    for name in names():
        if isinstance(found := kind(name), what):
            return name, found
    raise Usage(f"no sink is registered that can do this: {what.__name__}", f"there are {', '.join(names())}")


@cache
def _others() -> dict[str, list[EntryPoint]]:
    """By name; a package that is found in two places on the path counts once."""
    found: dict[str, dict[tuple[str, str], EntryPoint]] = {}
    for point in entry_points(group=GROUP):
        found.setdefault(point.name, {}).setdefault((_package(point), point.value), point)
    return {name: list(points.values()) for name, points in found.items()}
