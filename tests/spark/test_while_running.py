"""A run that goes on while its surroundings change: partitions, the database, a broker, another run."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.engines.listener import Waiting
from fencepost.lab.crash import visits
from fencepost.lab.proxy import Block, Protocol, Proxy
from spark.drivers import go_on, pipeline_process, wait_for
from spark.flows import Flow, Running


@pytest.mark.timeout(900)
@pytest.mark.proof
def test_a_run_goes_on_with_new_partitions_and_after_a_restart_of_the_database(flow: Flow) -> None:
    flow.produce(range(100))
    with flow.running() as running:
        _lands(running, flow, 100)

        flow.add_partitions(4)
        flow.produce(range(100, 300))
        _lands(running, flow, 300)
        assert flow.positions() == {0: 100, 1: 100, 2: 50, 3: 50}

        flow.stack.postgres.restart()
        flow.produce(range(300, 500))
        _lands(running, flow, 500)
        assert any(isinstance(news, Waiting) for news in running.news)
    assert running.failure is None
    flow.assert_exact(500)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_run_goes_on_without_the_broker_that_led_a_partition(flow: Flow) -> None:
    flow.produce(range(100))
    with flow.running() as running:
        _lands(running, flow, 100)
        leader = flow.leader(0)
        leader.kill()
        try:
            flow.produce(range(100, 300))
            _lands(running, flow, 300)
            assert any(isinstance(news, Waiting) for news in running.news), "it stood still and said nothing"
        finally:
            leader.restart()
            flow.stack.wait_in_sync(120)
        flow.produce(range(300, 400))
        _lands(running, flow, 400)
    assert running.failure is None
    flow.assert_exact(400)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_run_outlasts_a_kafka_that_stands_still_when_a_batch_has_just_landed(flow: Flow, tmp_path: Path) -> None:
    flow.produce(range(100))
    delivered = tmp_path / "delivered"
    brokers = flow.stack.brokers.values()
    with pipeline_process(flow.declare(), "--crash", "delivered", "1", "stop", str(delivered)) as driver:
        driver.wait_until(lambda: visits(delivered), "a task has delivered its span")
        try:
            for broker in brokers:
                broker.stop()
            go_on(visits(delivered)[0].pid)
            driver.wait_until(lambda: driver.news("waiting"), "the run waits for Kafka")
        finally:
            for broker in brokers:
                broker.cont()
            flow.stack.wait_in_sync(120)
        flow.produce(range(100, 200))
        driver.wait_until(lambda: len(flow.landed()) == 200, "the run goes on by itself")
        assert driver.running
    flow.assert_exact(200)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_second_run_takes_over_and_the_first_ends_as_fenced(flow: Flow) -> None:
    flow.produce(range(100))
    with pipeline_process(flow.declare()) as first:
        first.wait_until(lambda: len(flow.landed()) == 100, "the first run carries")
        flow.produce(range(100, 5_000))
        flow.run()
        flow.produce(range(5_000, 5_100))
        assert first.ended() == 4, first.told()
        assert [told["error"] for told in first.news("failed")] == ["Fenced"]
    flow.run()
    flow.assert_exact(5_100)


@pytest.mark.timeout(900)
@pytest.mark.proof
def test_setting_positions_ends_an_idle_run_as_fenced_and_the_next_run_goes_on_from_there(flow: Flow) -> None:
    flow.produce(range(100))
    spec = flow.declare()
    with pipeline_process(spec) as first:
        first.wait_until(lambda: first.news("batch"), "the first run carries")
        subprocess.run(
            [sys.executable, "-m", "fencepost", "positions", "set", "--to", "0:10,1:20", "--yes", "--spec", str(spec)],
            check=True,
        )
        assert first.ended() == 4, first.told()  # and no record came
        assert [told["error"] for told in first.news("failed")] == ["Fenced"]
    assert flow.positions() == {0: 10, 1: 20}
    assert flow.run().rows == 40 + 30
    assert Counter(Counter(flow.landed()).values()) == {1: 10 + 20, 2: 40 + 30}


CUT = 30.0  # seconds


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("how", Block)
@pytest.mark.parametrize("idle", [True, False], ids=["idle", "busy"])
def test_a_run_says_that_it_waits_while_the_database_is_cut_off_and_goes_on_afterwards(
    flow: Flow, how: Block, idle: bool
) -> None:
    flow.produce(range(2_000))
    with database_line(flow.stack.dsn) as (proxy, dsn):
        spec = flow.declare(options={"dsn": dsn}, batch={"records": 200, "every": "0s"})
        with pipeline_process(spec) as driver:
            driver.wait_until(lambda: len(driver.news("batch")) >= (10 if idle else 2), "batches land")
            since = monotonic()
            proxy.block("db", how)
            driver.wait_until(lambda: driver.news("waiting"), "the run says that it waits")
            flow.produce(range(2_000, 3_000))
            wait_for(lambda: monotonic() - since > CUT, "the cut has lasted")
            assert driver.running, driver.told()
            proxy.unblock("db")
            driver.wait_until(lambda: len(flow.landed()) == 3_000, "the run goes on by itself")
            assert driver.running
    flow.assert_exact(3_000)


@contextmanager
def database_line(dsn: str) -> Iterator[tuple[Proxy, str]]:
    """A proxy before the database, and the way through it."""
    there = conninfo_to_dict(dsn)
    with Proxy() as proxy:
        port = proxy.listen("db", (str(there["host"]), int(str(there["port"]))), Protocol.POSTGRES)
        yield proxy, make_conninfo(dsn, port=port)


def _lands(running: Running, flow: Flow, rows: int) -> None:
    running.wait_until(lambda: len(flow.landed_or_nothing()) == rows, f"{rows} rows are there")
