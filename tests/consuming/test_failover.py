"""The python engine after PostgreSQL went back to an earlier moment: nothing lost, nothing doubled, and it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from consuming.relays import QUICK
from fencepost.local import Stack
from spark.flows import Flow

PYTHON: dict[str, Any] = {"engine": "python", "transform": None}


@pytest.fixture
def flow(stack: Stack, tmp_path: Path) -> Flow:
    flow = Flow(stack, tmp_path)
    flow.kafka |= QUICK
    return flow


@pytest.mark.proof
@pytest.mark.parametrize("takeover", [True, False], ids=["takeover too", "rows"])
def test_a_run_goes_on_from_where_the_database_went_back_to(flow: Flow, takeover: bool) -> None:
    flow.produce(range(40))
    with flow.running(**PYTHON, options={"ledger_schema": f"{flow.name}_own"}) as run:
        run.wait_until(lambda: len(flow.landed()) == 40, "all have landed")
        owner = f", owner = '{uuid4()}', epoch = epoch - 1" if takeover else ""
        flow.sql(
            f"WITH gone AS (DELETE FROM {flow.name} WHERE _offset >= 5), "
            f"counted AS (UPDATE {flow.name}_own.pipelines SET epoch = epoch {'- 1' if takeover else ''}), "
            f"noted AS (DELETE FROM {flow.name}_own.spans) "
            f"UPDATE {flow.name}_own.positions SET position = 5{owner}"
        )
        flow.produce(range(40, 60))
        run.wait_until(lambda: len(flow.landed()) >= 60, "the run went on")
    flow.assert_exact(60)
    assert run.failure is None
    flow.sql(f"DROP SCHEMA {flow.name}_own CASCADE")
