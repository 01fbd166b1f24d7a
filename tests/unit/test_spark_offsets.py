"""Offsets as a mask: a byte each, from the first one to the last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fencepost.engines.spark.offsets import mask

OFFSETS = st.integers(0, 2**63 - 1000).flatmap(
    lambda base: st.sets(st.integers(0, 500), min_size=1).map(lambda some: {base + one for one in some})
)


@given(OFFSETS)
def test_the_mask_holds_these_offsets_and_no_others(offsets: set[int]) -> None:
    made = mask(offsets)
    assert {min(offsets) + number for number, byte in enumerate(made) if byte} == offsets
    assert len(made) == max(offsets) - min(offsets) + 1
