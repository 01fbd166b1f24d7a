"""A run's news as Prometheus reads them."""

from __future__ import annotations

import socket
import urllib.request
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families

from fencepost.engines.listener import BatchDone, Skipped, Started, Waiting
from fencepost.errors import Usage
from fencepost.model import Span, TopicPartition
from fencepost.run.metrics import Metrics, served

ORDERS = TopicPartition("orders", 3)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def read(port: int) -> dict[str, float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {sample.name: sample.value for family in families for sample in family.samples if sample.value}


def test_what_a_run_did_can_be_read_while_it_runs_and_no_longer() -> None:
    metrics, port = Metrics("shop"), free_port()
    with served(metrics, f"127.0.0.1:{port}"):
        metrics(Started(uuid4(), 4, {ORDERS: 10}))
        metrics(BatchDone(0, {ORDERS: 110}, 100, 90, 10, 0, lag=7))
        metrics(Waiting("nobody answers", 1.0))
        metrics(Skipped(ORDERS, Span(110, 113)))
        metrics.fenced()
        found = read(port)
        assert (found["fencepost_position"], found["fencepost_lag"], found["fencepost_epoch"]) == (110, 7, 4)
        assert (found["fencepost_records_total"], found["fencepost_rows_total"]) == (100, 90)
        assert (found["fencepost_dead_total"], found["fencepost_retries_total"]) == (10, 1)
        assert found["fencepost_skipped_total"] == 3
        assert (found["fencepost_batch_seconds_count"], found["fencepost_fenced"]) == (1, 1)
    with pytest.raises(OSError, match="refused"):
        read(port)


@pytest.mark.parametrize("where", ["9100", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:99999"])
def test_a_place_that_is_none_is_refused(where: str) -> None:
    with pytest.raises(Usage, match="HOST:PORT"), served(Metrics("shop"), where):
        pass


def test_a_port_that_is_taken_is_said() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(Usage, match="in use"), served(Metrics("shop"), f":{taken.getsockname()[1]}"):
            pass
