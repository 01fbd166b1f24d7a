"""A driver that stands still while another takes over, and then goes on as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.lab.crash import standing
from spark.drivers import pipeline_process
from spark.faults import StopOn
from spark.flows import Flow

LATE = 6_001  # in partition 1, after several record batches


@pytest.mark.timeout(900)
def test_a_stopped_driver_is_fenced_when_it_goes_on_after_its_successor(flow: Flow, tmp_path: Path) -> None:
    """One task stands before its first row, with a connection that nobody ends; the other in the middle of COPY."""
    flow.produce(range(8_000))
    started, in_copy = tmp_path / "started", tmp_path / "in-copy"
    transform = StopOn(LATE, in_copy).in_file(tmp_path)
    spec = flow.declare(transform=transform)
    with pipeline_process(spec, "--once", "--crash", "started", "0", "stop", str(started)) as driver:
        driver.wait_until(lambda: standing(started) and standing(in_copy), "both tasks stand still")
        assert flow.in_mid_copy()
        driver.stop()
        assert flow.positions() == {0: 0, 1: 0}

        assert flow.run(transform=transform).rows == 8_000
        flow.assert_exact(8_000)

        driver.go_on()
        assert driver.ended() == 4, driver.told()
        assert [told["error"] for told in driver.news("failed")] == ["Fenced"]
    flow.assert_exact(8_000)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_control_under_at_least_once_the_stopped_driver_writes_what_its_successor_wrote(
    flow: Flow, tmp_path: Path
) -> None:
    flow.produce(range(200))
    started = tmp_path / "started"
    spec = flow.declare(guarantee="at-least-once")
    with pipeline_process(spec, "--once", "--crash", "started", "0", "stop", str(started)) as driver:
        driver.wait_until(lambda: standing(started), "the task stands still")
        driver.stop()
        flow.run(guarantee="at-least-once")
        flow.assert_exact(200)
        driver.go_on()
        assert driver.ended() == 4, driver.told()
    found = flow.comparison()
    assert (found.lost, found.duplicated) == (0, 100)
