"""Names of topics and groups: what may be one, and the nearest of those that exist for somebody who mistyped one."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from fencepost.errors import Usage

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_DROPPED = " \t\n\v\f\r"
_LONGEST_GROUP = 32_000  # bytes; Kafka's own strings end a little above


def require_topic(name: str) -> str:
    """Raises Usage for what Kafka takes for no topic's name: the driver would wait for it, or end the process."""
    if not _TOPIC.fullmatch(name) or name in (".", ".."):
        raise Usage(f"{name[:100]!r} is not a valid topic name", "1 to 249 letters, digits, dots, '_' and '-'")
    return name


def require_group(name: str) -> str:
    """Raises Usage for what can be no group's name. Any text can, but for a few that end the driver's process."""
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= _LONGEST_GROUP or "\0" in name:
        raise Usage(f"{name[:100]!r} is not a valid group name", "give a non-empty name")
    return name


def require_identity(setting: str, name: str) -> str:
    """Of a client of ours. Raises Usage where the driver would make another name of it, which may be somebody's.

    It drops white space at the beginning of a setting; of nothing but that an empty one is left.
    """
    if not name or name[0] in _DROPPED:
        raise Usage(
            f"{setting} {name[:100]!r} is empty, or begins with white space, which librdkafka drops",
            "give a name that begins with another character",
        )
    return name


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """A question that names the nearest, or `otherwise` when nothing comes near."""
    near = difflib.get_close_matches(name, sorted(names), n=1)
    return f"did you mean {near[0]}?" if near else otherwise


def group_of(pipeline: str) -> str:
    """The consumer group of a pipeline: a name that nobody else's group has by accident."""
    return f"fencepost.{pipeline}"
