"""Of many cases of one test the gate runs the named ones; the others are proofs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def in_the_gate(cases: Iterable[Any], *kept: Any) -> list[Any]:
    """What `parametrize` takes for them."""
    cases = list(cases)
    assert all(one in cases for one in kept), f"not among the cases: {kept}"
    return [one if one in kept else pytest.param(*_values(one), marks=pytest.mark.proof) for one in cases]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
