"""When bad records are dead-lettered, and when there are so many that the run stops."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Refused, Usage
from fencepost.model import TopicPartition
from fencepost.rules.brake import FEW, Brake
from fencepost.spec import PipelineSpec
from fencepost.spec.file import parse

ORDERS, RETURNS = TopicPartition("orders", 0), TopicPartition("returns", 0)


def bad(count: int) -> dict[int, str]:
    return dict.fromkeys(range(100, 100 + count), "not JSON")


def stops(brake: Brake, records: int, count: int, partition: TopicPartition = ORDERS) -> bool:
    """Carry a batch of so many records, so many of them bad."""
    try:
        brake.require(partition, records, bad(count))
    except Refused:
        return True
    brake.landed(partition, records, count)
    return False


@given(st.integers(FEW, 500), st.data())
def test_without_a_share_only_a_batch_that_is_all_bad_stops(records: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, records))
    assert stops(Brake(), records, count) == (count == records)


@given(st.floats(0, 1), st.integers(1, 500), st.data())
def test_with_a_share_no_batch_that_lands_has_more(share: float, records: int, data: st.DataObject) -> None:
    count = data.draw(st.integers(1, records))
    stopped = stops(Brake(share), records, count)
    assert stopped == (records >= FEW and count > share * records)


def test_ten_in_a_row_over_small_batches_stop_and_a_good_one_between_them_does_not() -> None:
    brake = Brake()
    assert [stops(brake, 3, 3) for _ in range(4)] == [False, False, False, True]
    assert stops(brake, 3, 3)  # nothing changed: the batch is carried again
    assert not stops(brake, 3, 3, RETURNS)
    brake = Brake()
    assert not any(stops(brake, 1, bad) for _ in range(5) for bad in (1, 1, 1, 0))
    assert not any(stops(Brake(1), 1, 1) for _ in range(50))
    single = Brake(0.5)
    assert [stops(single, 1, 1) for _ in range(10)] == [False] * 9 + [True]


def test_it_says_which_and_why_and_what_to_do() -> None:
    with pytest.raises(
        Refused, match=r"orders/0: 20 of the 20 records of a batch are bad.*offset 100: not JSON"
    ) as stop:
        Brake().require(ORDERS, 20, bad(20))
    assert "dead_letters: {max_share: 1}" in stop.value.remedy
    assert not stop.value.about_values


def test_what_was_found_so_far_is_said_to_be_at_least_that_many() -> None:
    with pytest.raises(Refused, match=r"orders/0: at least 5,500 of the 6,000 records of a batch are bad"):
        Brake(0.5).require(ORDERS, 6_000, bad(5_500))
    with pytest.raises(Refused, match=r"orders/0: 6,000 of the 6,000 records of a batch are bad"):
        Brake(0.5).require(ORDERS, 6_000, bad(6_000))


@pytest.mark.parametrize(("written", "meant"), [("0.5", 0.5), ("1", 1.0), ("1.0", 1.0), ("0", 0.0)])
def test_a_share_is_a_number_of_the_file(written: str, meant: float) -> None:
    assert _declared(written).dead_letters.max_share == meant


@pytest.mark.parametrize("written", ["true", "half", "1.5", "-1", ".nan"])
def test_what_is_no_share_is_refused(written: str) -> None:
    with pytest.raises(Usage, match="max_share"):
        _declared(written)


def _declared(share: str) -> PipelineSpec:
    text = "name: x\nguarantee: exactly-once\nsource: {topic: t}\non_error: dead_letter\n"
    sink = "sink: {format: postgres, options: {table: t}}\n"
    return parse(f"{text}dead_letters: {{max_share: {share}}}\n{sink}", "fencepost.yml")
