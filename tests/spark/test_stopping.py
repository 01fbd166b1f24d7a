"""A run that is asked to stop finishes its batch; the next one goes on behind it."""

from __future__ import annotations

import signal

import pytest

from spark.drivers import never, run_command
from spark.flows import Flow


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("number", "code"), [pytest.param(signal.SIGINT, 130, marks=pytest.mark.proof), (signal.SIGTERM, 0)]
)
def test_a_signal_ends_a_run_after_its_batch(flow: Flow, number: signal.Signals, code: int) -> None:
    flow.produce(range(4_000))
    spec = flow.declare(batch={"records": 100, "every": "0s"})
    with run_command(spec, "--format", "json") as driver:
        driver.wait_until(lambda: len(driver.news("batch")) >= 2, "two batches have landed")
        driver.signal(number)
        assert driver.ended() == code, driver.told()
        (ended,) = driver.news("ended")
        assert 200 <= ended["rows"] < 4_000
        assert sum(ended["positions"].values()) == sum(flow.positions().values()) == ended["rows"]
    flow.run()
    flow.assert_exact(4_000)


@pytest.mark.proof
def test_a_signal_before_anything_was_read_ends_a_run_at_once_with_a_word(flow: Flow) -> None:
    with run_command(flow.declare()) as driver:
        driver.wait_until(driver.spark, "Spark is being started")
        driver.signal(signal.SIGINT)
        assert driver.ended() == 130, driver.told()
        assert "fencepost: interrupted" in driver.told()
        assert "Traceback" not in driver.told()
    never(driver.left_behind, "a Spark without its driver lives on")
    assert flow.positions() == {}
