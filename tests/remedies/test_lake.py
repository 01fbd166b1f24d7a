"""Remedies about Delta tables, followed."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

from contract.delta_subject import InDelta
from fencepost.errors import PositionLost, Usage
from fencepost.local import Stack
from fencepost.sinks.delta.kind import KIND
from fencepost.sinks.delta.retention import LOG, TRANSACTIONS
from fencepost.spec import load
from remedies.following import commands, fencepost, type_in
from spark.lakes import LakeFlow


@pytest.fixture
def lake(stack: Stack, tmp_path: Path) -> LakeFlow:
    lake = LakeFlow(stack, tmp_path)
    lake.produce(range(20))
    lake.declare().rename(tmp_path / "fencepost.yml")
    return lake


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_delta_table_is_made_by_the_first_run_and_then_positions_are_set(lake: LakeFlow) -> None:
    done = fencepost(lake.folder, "positions", "set", "--to", "0:5,1:5")
    assert (done.code, "`fencepost run` makes it" in done.said) == (2, True), done.said
    assert lake.run().rows == 20
    type_in("fencepost positions set --to 0:5,1:5", lake.folder)
    assert lake.run().rows == 10
    assert len(lake.landed()) == 30


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_delta_table_that_was_restored_goes_on_where_positions_set_says(lake: LakeFlow) -> None:
    lake.run()
    lake.table().restore(1)
    assert lake.landed() == []
    with pytest.raises(PositionLost, match="RESTORE") as lost:
        lake.run()
    assert commands(lost.value) == ["fencepost positions set"]
    type_in("fencepost positions set --to earliest", lake.folder)
    assert lake.run().rows == 20
    lake.assert_exact(20)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_delta_table_that_forgets_is_mended_by_the_statements(lake: LakeFlow) -> None:
    with InDelta.session() as spark:
        for setting in (TRANSACTIONS, LOG):
            path = str(lake.folder / f"for`gets {setting}")
            short = {setting: "interval 5 minutes"}
            if setting is LOG:  # Delta wants removed files to be kept no longer than its log
                short["delta.deletedFileRetentionDuration"] = "interval 5 minutes"
            DeltaTable.create(path, InDelta.ROWS, configuration=dict[str, str | None](short))
            job = load(lake.declare(options={"path": path})).job
            with pytest.raises(Usage, match=setting) as refused:
                KIND.fit(job, InDelta.ROWS)
            spark.sql(refused.value.remedy)
            assert KIND.fit(job, InDelta.ROWS).exists
