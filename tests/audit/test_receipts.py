"""Receipts: what became of one event, from the position alone or from its row."""

from __future__ import annotations

import threading

import pytest

from audit.shop import Shop
from fencepost.audit.receipts import Fate, find_event, receipt
from fencepost.errors import Usage
from fencepost.local import Stack
from fencepost.spec import PipelineSpec


@pytest.fixture
def shop(stack: Stack) -> Shop:
    """In partition 0: ten events of which every third is filtered, a marker, an aborted one, its marker."""
    shop = Shop(stack, partitions=1)
    shop.send(range(10))
    shop.send([1_000], commit=False)
    shop.carry(keep=lambda sequence: sequence % 3 != 0)
    return shop


def spec_of(shop: Shop) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": shop.name,
            "guarantee": "exactly-once",
            "kafka": shop.kafka,
            "source": {"topic": shop.name},
            "sink": {
                "format": "postgres",
                "options": {"table": shop.name, "dsn": shop.stack.dsn, "ledger_schema": f"{shop.name}_own"},
            },
        }
    )


def test_the_position_answers_without_a_look_at_the_rows(shop: Shop) -> None:
    shop.sql(f"DROP TABLE {shop.name}")
    assert receipt(spec_of(shop), 0, 4).fate is Fate.PROCESSED


def test_what_lies_beyond_the_position_waits_and_says_how_far_it_is(shop: Shop) -> None:
    shop.send([10, 11])
    found = receipt(spec_of(shop), 0, 14)
    assert (found.fate, found.position, found.behind) == (Fate.WAITING, 13, 2)


def test_a_look_at_the_row_tells_landed_filtered_and_gone_apart(shop: Shop) -> None:
    fates = {offset: receipt(spec_of(shop), 0, offset, check=True).fate for offset in (1, 3, 10, 11)}
    assert fates == {1: Fate.LANDED, 3: Fate.FILTERED, 10: Fate.GONE, 11: Fate.GONE}


def test_a_dead_letter_is_told(shop: Shop) -> None:
    shop.sql(f'CREATE TABLE {shop.name}_dead (topic text, partition int, "offset" bigint)')
    shop.sql(f"INSERT INTO {shop.name}_dead VALUES (%s, 0, 3)", shop.name)
    assert receipt(spec_of(shop), 0, 3, check=True).fate is Fate.DEAD


def test_a_sender_can_wait_for_the_answer(shop: Shop) -> None:
    shop.send([10])
    carrier = threading.Timer(0.5, shop.carry)
    carrier.start()
    try:
        assert receipt(spec_of(shop), 0, 13, wait=30).fate is Fate.PROCESSED
    finally:
        carrier.join()


def test_an_event_is_found_by_its_id(shop: Shop) -> None:
    assert find_event(spec_of(shop), "p:7") == ((shop.name, 0), 7)
    with pytest.raises(Usage, match="p:77"):
        find_event(spec_of(shop), "p:77")


def test_a_place_that_the_topic_does_not_have_is_refused(shop: Shop) -> None:
    with pytest.raises(Usage, match="no partition 9"):
        receipt(spec_of(shop), 9, 0)
    with pytest.raises(Usage, match="ends at 13"):
        receipt(spec_of(shop), 0, 13)
