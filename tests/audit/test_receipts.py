"""Receipts: what became of one event, from the position alone or from its row."""

from __future__ import annotations

import threading
from contextlib import closing
from typing import Any
from uuid import uuid4

import pytest

from audit.shop import Shop
from fencepost.admin.positions import carry_out, propose
from fencepost.audit.receipt import Fate, find_event, receipt
from fencepost.errors import TopicRecreated, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.offsets import TopicReader
from fencepost.kafka.topics import TopicRequest, create_topic, delete_topic
from fencepost.local import Stack
from fencepost.model import Batch, Span, TopicPartition
from fencepost.sinks.postgres import PostgresStore
from fencepost.spec import PipelineSpec


@pytest.fixture
def shop(stack: Stack) -> Shop:
    """In partition 0: ten events of which every third is filtered, a marker, an aborted one, its marker."""
    shop = Shop(stack, partitions=1)
    shop.send(range(10))
    shop.send([1_000], commit=False)
    shop.carry(keep=lambda sequence: sequence % 3 != 0)
    return shop


def spec_of(shop: Shop, source: dict[str, Any] | None = None, **options: Any) -> PipelineSpec:
    table = {"table": shop.name, "dsn": shop.stack.dsn, "ledger_schema": f"{shop.name}_own", **options}
    return PipelineSpec.model_validate(
        {
            "name": shop.name,
            "guarantee": "exactly-once",
            "kafka": shop.kafka,
            "source": {"topic": shop.name, **(source or {})},
            "sink": {"format": "postgres", "options": table},
        }
    )


def fates(shop: Shop, *offsets: int) -> list[tuple[Fate, Fate]]:
    """Of each event, from the position and by a look at its row."""
    spec = spec_of(shop)
    return [(receipt(spec, 0, at).fate, receipt(spec, 0, at, check=True).fate) for at in offsets]


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
    shop.sql(f"ALTER TABLE {shop.name}_dead ADD COLUMN _dead text DEFAULT 'the value is no JSON'")
    assert receipt(spec_of(shop), 0, 3, check=True).note == "the value is no JSON"


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


# -- what was never read


def test_what_positions_were_set_past_is_skipped_and_what_they_were_set_back_over_is_carried(stack: Stack) -> None:
    shop = Shop(stack, partitions=1)
    shop.send(range(10))  # and a marker
    shop.carry()
    shop.send(range(10, 20))
    spec = spec_of(shop)
    carry_out(spec, propose(spec, {0: 16}))
    shop.carry()
    assert fates(shop, 3, 12, 17) == [
        (Fate.PROCESSED, Fate.LANDED),
        (Fate.SKIPPED, Fate.SKIPPED),
        (Fate.PROCESSED, Fate.LANDED),
    ]
    carry_out(spec, propose(spec, {0: 0}))
    assert fates(shop, 3, 12) == [(Fate.WAITING, Fate.LANDED), (Fate.WAITING, Fate.WAITING)]
    shop.carry()
    assert fates(shop, 12) == [(Fate.PROCESSED, Fate.LANDED)]


def test_what_a_pipeline_began_behind_is_skipped_and_before_it_begins_that_is_unknown(stack: Stack) -> None:
    shop = Shop(stack, partitions=1)
    shop.send(range(5))
    for start, fate in (("earliest", Fate.WAITING), ("latest", Fate.UNKNOWN), ({0: 3}, Fate.UNKNOWN)):
        assert receipt(spec_of(shop, {"start": start}), 0, 2, check=True).fate is fate
    assert receipt(spec_of(shop, {"start": {0: 3}}), 0, 3).fate is Fate.WAITING
    with closing(PostgresStore(shop.settings)) as store:
        topic = TopicReader(shop.cluster, shop.name)
        store.take_over(shop.name, uuid4(), topic.positions({}, "latest"), topic.topic_ids)
    shop.send(range(5, 8))
    shop.carry()
    assert fates(shop, 2, 6) == [(Fate.SKIPPED, Fate.SKIPPED), (Fate.PROCESSED, Fate.LANDED)]


def test_under_at_most_once_only_a_row_proves_that_an_event_was_written(stack: Stack) -> None:
    shop = Shop(stack, partitions=1)
    shop.send(range(10))
    shop.carry(Guarantee.AT_MOST_ONCE, keep=lambda sequence: sequence != 4)
    assert fates(shop, 3, 4) == [(Fate.UNKNOWN, Fate.LANDED), (Fate.UNKNOWN, Fate.UNKNOWN)]


def test_records_that_were_gone_before_they_were_read_are_not_processed(stack: Stack) -> None:
    shop = Shop(stack, partitions=1)
    shop.send(range(10))
    at = TopicPartition(shop.name, 0)
    with closing(PostgresStore(shop.settings)) as store:
        tenure = store.take_over(shop.name, uuid4(), {at: 0}, TopicReader(shop.cluster, shop.name).topic_ids)
        store.advance(Batch({at: Span(0, 5)}, None, tenure))  # as failOnDataLoss: false goes over them
    shop.carry()
    assert fates(shop, 2, 7) == [(Fate.UNKNOWN, Fate.UNKNOWN), (Fate.PROCESSED, Fate.LANDED)]


def test_where_a_row_of_its_commit_is_missing_nothing_is_called_filtered(shop: Shop) -> None:
    assert fates(shop, 3) == [(Fate.PROCESSED, Fate.FILTERED)]
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:4'")
    assert fates(shop, 3, 4) == [(Fate.PROCESSED, Fate.UNKNOWN)] * 2


def test_an_event_whose_key_has_another_events_row_is_not_called_filtered(shop: Shop) -> None:
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:1'")
    spec = spec_of(shop, mode="upsert", key=["event"])
    assert receipt(spec, 0, 1, check=True).fate is Fate.NO_ROW


def test_what_was_carried_of_a_topic_that_was_deleted_says_nothing_about_the_new_one(shop: Shop) -> None:
    spec = spec_of(shop)
    delete_topic(shop.cluster, shop.name)
    assert wait_until(lambda: shop.name not in Cluster(shop.kafka).topic_names(), 30)
    create_topic(shop.cluster, TopicRequest(shop.name, 1))
    shop.send(range(20, 28))
    with pytest.raises(TopicRecreated):
        receipt(spec, 0, 1)
    carry_out(spec, propose(spec, {0: 6}))
    shop.carry()
    assert fates(shop, 3, 1, 7) == [
        (Fate.SKIPPED, Fate.SKIPPED),
        (Fate.SKIPPED, Fate.UNKNOWN),  # a row of the old one is there
        (Fate.PROCESSED, Fate.LANDED),
    ]


def test_a_row_of_a_topic_that_was_deleted_does_not_pass_for_one_of_the_new_one(shop: Shop) -> None:
    """Both were carried at these offsets, and somebody took the new one's row away."""
    spec = spec_of(shop)
    delete_topic(shop.cluster, shop.name)
    assert wait_until(lambda: shop.name not in Cluster(shop.kafka).topic_names(), 30)
    create_topic(shop.cluster, TopicRequest(shop.name, 1))
    shop.send(range(20, 28))
    carry_out(spec, propose(spec, "earliest"))
    shop.carry()
    shop.sql(f"DELETE FROM {shop.name} WHERE event IN ('p:21', 'p:23')")
    assert fates(shop, 1, 2, 3) == [
        (Fate.PROCESSED, Fate.UNKNOWN),  # a row of the old one is there
        (Fate.PROCESSED, Fate.LANDED),  # two rows are, and the old one had one at most
        (Fate.PROCESSED, Fate.UNKNOWN),  # none is there: the old one was filtered, the new one is lost
    ]


def test_an_event_that_was_sent_again_after_an_abort_is_found_where_it_is_committed(shop: Shop) -> None:
    shop.send([1_000])
    assert find_event(spec_of(shop), "p:1000") == ((shop.name, 0), 13)


def test_a_table_may_have_a_percent_sign_in_its_name(shop: Shop) -> None:
    name = f"{shop.name}_5%s"
    shop.sql(f'ALTER TABLE {shop.name} RENAME TO "{name}"')
    assert receipt(spec_of(shop, table=name), 0, 1, check=True).fate is Fate.LANDED
