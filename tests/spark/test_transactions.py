"""Records of aborted transactions, and the markers that end every transaction, take offsets and are no events."""

from __future__ import annotations

import pytest

from fencepost.engines.spark.source import KafkaSource
from spark.flows import Flow


def test_only_committed_records_land_and_a_span_without_any_advances(flow: Flow) -> None:
    flow.produce_in_transaction(range(100), commit=False)
    flow.produce_in_transaction(range(100, 200), commit=True)
    flow.produce_in_transaction(range(200, 300), commit=False)
    flow.run()
    assert sorted(flow.landed()) == list(range(100, 200))
    assert flow.positions() == flow.ends() == {0: 153, 1: 153}  # three markers in each

    flow.produce_in_transaction(range(300, 400), commit=False)
    run = flow.run()
    assert [batch.rows for batch in run.batches()] == [0]
    assert flow.positions() == flow.ends() == {0: 204, 1: 204}
    flow.assert_exact(100)


@pytest.mark.proof
def test_control_a_source_that_reads_everything_lands_aborted_records(
    flow: Flow, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = KafkaSource._options
    everything = {"kafka.isolation.level": "read_uncommitted"}
    monkeypatch.setattr(KafkaSource, "_options", lambda source: options(source) | everything)
    flow.produce_in_transaction(range(100), commit=False)
    flow.produce_in_transaction(range(100, 200), commit=True)
    flow.run()
    assert flow.comparison().phantom == 100
