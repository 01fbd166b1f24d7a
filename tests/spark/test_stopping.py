"""A run that is asked to stop finishes its batch; the next one goes on behind it."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from spark.drivers import Driver
from spark.flows import Flow


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_a_run_after_its_batch(flow: Flow, tmp_path: Path, number: signal.Signals, code: int) -> None:
    flow.produce(range(4_000))
    spec = flow.declare(batch={"records": 100, "every": "0s"})
    driver = Driver([sys.executable, "-m", "fencepost", "run", "--spec", str(spec), "--format", "json"], tmp_path)
    try:
        driver.wait_until(lambda: len(driver.news("batch")) >= 2, "two batches have landed")
        driver.signal(number)
        assert driver.ended() == code, driver.told()
        (ended,) = driver.news("ended")
        assert 200 <= ended["rows"] < 4_000
        assert sum(ended["positions"].values()) == sum(flow.positions().values()) == ended["rows"]
    finally:
        if driver.running:
            driver.kill()
    flow.run()
    flow.assert_exact(4_000)
