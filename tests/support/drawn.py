"""How many examples hypothesis draws: some in the gate, all of them elsewhere."""

from __future__ import annotations

import os

GATE = "FENCEPOST_GATE"  # set by tests/gate.py for the gate


def examples(in_the_gate: int, otherwise: int) -> int:
    return in_the_gate if os.environ.get(GATE) else otherwise
