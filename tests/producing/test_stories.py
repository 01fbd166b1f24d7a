"""Why each mode is not enough, and what is: every story shows its anomaly, and shows it gone."""

from __future__ import annotations

import pytest

from fencepost.lab.scenarios.field import Field
from fencepost.lab.scenarios.shown import Shown
from fencepost.lab.scenarios.stories import STORIES
from support.gate_cases import in_the_gate

# name: acked, in the log, lost and doubled where it is not enough, and where it is; then what else must be said of each
EXPECTED: dict[str, tuple[tuple[int, int, int, int], tuple[int, int, int, int], str, str]] = {
    "fire-and-forget": ((0, 2, 0, 0), (102, 102, 0, 0), "never arrived 100", "never arrived 0"),
    "leader-dies": ((102, 2, 100, 0), (102, 102, 0, 0), "", "acked while its leader lived 0"),
    "below-min-in-sync": (
        (101, 101, 0, 0),
        (1, 1, 0, 0),
        "refused 0; acked while one broker alone had it 100",
        "refused 100; acked while one broker alone had it 0",
    ),
    "invisible": ((101, 1, 100, 0), (101, 101, 0, 0), "", ""),
    "lost-acknowledgement": ((101, 201, 0, 100), (101, 101, 0, 0), "", ""),
    "retry-out-of-order": ((201, 201, 0, 0), (201, 201, 0, 0), "not in order", "in order"),
    "aborted-transaction": ((100, 200, 0, 0), (100, 100, 0, 0), "aborted and read 100", "aborted and read 0"),
    "zombie": ((100, 200, 0, 100), (100, 100, 0, 0), "", "the zombie was fenced"),
    "late-end": (
        (100, 200, 0, 0),
        (100, 100, 0, 0),
        "read of the open transaction 100",
        "read of the open transaction 0",
    ),
    "timed-out-send": ((100, 200, 0, 100), (100, 100, 0, 0), "", ""),
    "transaction-timeout": ((100, 0, 100, 0), (100, 100, 0, 0), "", ""),
    "unclean-election": ((101, 1, 100, 0), (101, 101, 0, 0), "", ""),
    "leader-cut-off": ((102, 2, 100, 0), (102, 102, 0, 0), "", "acked by the old leader 0"),
    "leader-unheard": ((102, 2, 100, 0), (102, 102, 0, 0), "", "acked by the old leader 0"),
    "follower-stopped": ((101, 1, 100, 0), (101, 101, 0, 0), "", "acked without broker-3 100"),
}
IN_THE_GATE = [
    name
    for name in EXPECTED
    if name not in ("transaction-timeout", "unclean-election", "leader-cut-off", "leader-unheard", "follower-stopped")
]


def counts(shown: Shown) -> tuple[int, int, int, int]:
    return shown.acked, shown.in_log, shown.lost, shown.doubled


@pytest.mark.parametrize("name", in_the_gate(EXPECTED, *IN_THE_GATE))
def test_the_anomaly_is_shown_and_shown_gone(field: Field, name: str) -> None:
    weak, strong = STORIES[name].tell(field)
    weak_counts, strong_counts, weak_notes, strong_notes = EXPECTED[name]
    assert (counts(weak), "; ".join(weak.notes)) == (weak_counts, weak_notes)
    assert (counts(strong), "; ".join(strong.notes)) == (strong_counts, strong_notes)


@pytest.mark.proof
def test_a_restarted_producer_doubles_unless_its_position_is_in_the_transaction(field: Field) -> None:
    weak, strong = STORIES["restarted-producer"].tell(field)
    assert weak.doubled > 0
    assert (strong.lost, strong.doubled, strong.in_log) == (0, 0, strong.acked)


def test_every_story_is_told_here() -> None:
    assert STORIES.keys() == {*EXPECTED, "restarted-producer"}
