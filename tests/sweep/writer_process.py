"""One writer process over one partition: `python -m sweep.writer_process WORK`. Ends with the error's exit code."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from uuid import uuid4

from fencepost.delivery import deliver, exactly_once
from fencepost.errors import FencepostError, Rewound, Unknown, Unreachable
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Landed, Tenure
from fencepost.sinks.postgres import PostgresStore
from sweep import naive
from sweep.work import Naive, Work, next_span


def carry(work: Work, guarantee: Guarantee) -> None:
    """What a pipeline does: take over, carry, and after trouble renew the tenure and go on from the ledger."""
    with closing(PostgresStore(work.settings)) as store:
        tenure = store.take_over(work.settings.pipeline, uuid4(), {work.partition: 0}, {})
        position = tenure.positions[work.partition]
        while position < work.events:
            try:
                landed = attempt(work, guarantee, store, tenure, position)
                say(landed="already" if landed.already else str(landed.rows))
                position = next_span(position, work.events).end
            except (Unreachable, Unknown, Rewound) as trouble:
                say(trouble=type(trouble).__name__)
                if not work.renews:
                    raise
                tenure = store.renew(tenure, uuid4())
                position = tenure.positions[work.partition]


def attempt(work: Work, guarantee: Guarantee, store: PostgresStore, tenure: Tenure, position: int) -> Landed:
    span = next_span(position, work.events)
    batch = Batch({work.partition: span}, work.rows(span), tenure)
    return deliver(guarantee, batch, store, store, work.see) if work.asks else exactly_once(batch, store, work.see)


def say(**what: str) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> int:
    work = Work.unpacked(sys.argv[1])
    try:
        if isinstance(work.how, Naive):
            naive.carry(work, work.how, say)
        else:
            carry(work, work.how)
    except FencepostError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
