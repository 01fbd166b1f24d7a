"""A task that fails and is tried again by Spark, before and after its commit."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.lab.crash import CrashAction, CrashPoint, visits
from fencepost.model import Step
from spark.faults import Several
from spark.flows import RETRIES, Flow


def test_attempts_that_fail_before_and_after_their_commit_land_once(flow: Flow, tmp_path: Path) -> None:
    flow.produce(range(200))
    before, after = tmp_path / "before", tmp_path / "after"
    run = flow.run(
        see=Several(
            (
                CrashPoint(Step.WRITTEN, flow.partition(0), CrashAction.FAIL, before),
                CrashPoint(Step.DELIVERED, flow.partition(1), CrashAction.FAIL, after),
            )
        ),
        spark=RETRIES,
    )
    flow.assert_exact(200)
    (batch,) = run.batches()
    assert [visit.acted for visit in visits(before)] == [True, False]  # written twice, committed once
    assert [visit.acted for visit in visits(after)] == [True]  # the second attempt had nothing to deliver
    assert (batch.rows, batch.already) == (100, 1)


@pytest.mark.proof
def test_control_a_retry_doubles_under_at_least_once_and_a_crash_loses_under_at_most_once(
    flow: Flow, tmp_path: Path
) -> None:
    flow.produce(range(200))
    written = CrashPoint(Step.WRITTEN, flow.partition(0), CrashAction.FAIL, tmp_path / "written")
    flow.run(see=written, guarantee="at-least-once", spark=RETRIES)
    found = flow.comparison()
    assert (found.lost, found.duplicated) == (0, 100)

    flow.produce(range(200, 400))
    advanced = CrashPoint(Step.ADVANCED, flow.partition(1), CrashAction.FAIL, tmp_path / "advanced")
    flow.run(see=advanced, guarantee="at-most-once", spark=RETRIES)
    found = flow.comparison()
    assert (found.lost, found.duplicated) == (100, 100)
