"""What setting positions skips and repeats."""

from __future__ import annotations

import pytest

from fencepost.admin.positions import Move
from fencepost.model import TopicPartition

AT = TopicPartition("orders", 0)


@pytest.mark.parametrize(
    ("move", "skipped", "repeated"),
    [
        (Move(AT, 10, 4), 0, 6),
        (Move(AT, 10, 14), 4, 0),
        (Move(AT, None, 4), 0, 0),
        (Move(AT, 10, 4, first=0), 4, 0),  # created again: what was read up to 10 were other records
        (Move(AT, 10, 0, first=0), 0, 0),
        (Move(AT, None, 30, first=5), 25, 0),
    ],
)
def test_what_a_move_skips_and_what_it_repeats(move: Move, skipped: int, repeated: int) -> None:
    assert (move.skipped, move.repeated) == (skipped, repeated)
