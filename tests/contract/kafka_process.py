"""One writer process: `python -m contract.kafka_process WORK`. Ends with the error's exit code."""

from __future__ import annotations

import pickle
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from contract.kafka_flow import Plan
from contract.kafka_steps import Point, stepping
from fencepost.errors import FencepostError
from fencepost.kafka import transactions
from fencepost.lab.crash import CrashAction, visit
from fencepost.sinks.kafka import KafkaStore

SPAN = 100
EVENTS = 3 * SPAN


@dataclass(frozen=True)
class Work:
    """Carry the events that are left, dying at a step of the transaction where it says."""

    plan: Plan
    witness: Path
    point: Point | None = None
    time: int = 1  # dies when the step is reached for this time
    fresh: bool = False  # a store for every batch, as Spark's tasks have it; else one for all

    def packed(self) -> str:
        return pickle.dumps(self).hex()


def carry(work: Work) -> None:
    plan = work.plan
    with closing(KafkaStore(plan.settings)) as store:
        tenure = plan.take_over(store)
        for start in range(tenure.positions[plan.source], EVENTS, SPAN):
            if work.fresh:
                with closing(KafkaStore(plan.settings)) as own:
                    plan.carry(own, tenure, start, start + SPAN)
            else:
                plan.carry(store, tenure, start, start + SPAN)


def main() -> int:
    work: Work = pickle.loads(bytes.fromhex(sys.argv[1]))  # noqa: S301 (our own bytes)

    def act(point: Point) -> None:
        if point is work.point:
            visit(work.witness, point, work.time, CrashAction.KILL)

    try:
        with patch.object(transactions, "Client", stepping(act)):
            carry(work)
    except FencepostError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
