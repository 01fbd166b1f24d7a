"""The nearest of the names that exist, for somebody who mistyped one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str], otherwise: str) -> str:
    """A question that names the nearest, or `otherwise` when nothing comes near."""
    near = difflib.get_close_matches(name, sorted(names), n=1)
    return f"did you mean {near[0]}?" if near else otherwise
