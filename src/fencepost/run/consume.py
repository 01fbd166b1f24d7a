"""`consume`: a handler is called with a topic's events, under a guarantee."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Event as Flag
from typing import Literal

from fencepost.engines.listener import Listener, unheard
from fencepost.engines.python.commits import Commit
from fencepost.engines.python.consumer import Consumption
from fencepost.engines.python.handler import Handler
from fencepost.engines.python.handler_outputs import OutputHandler
from fencepost.engines.python.handler_transactions import TransactionHandler
from fencepost.engines.python.settings import ConsumerSettings, Per
from fencepost.guarantee import Guarantee
from fencepost.kafka.offsets import Start
from fencepost.run.loop import RunLoop, Summary


def consume(  # noqa: PLR0913 (what a member is)
    handler: Handler | TransactionHandler | OutputHandler,
    *,
    topic: str,
    group: str,
    guarantee: Guarantee | str,
    kafka: Mapping[str, str],
    dsn: str | None = None,
    to_topics: Sequence[str] = (),
    commit: Commit | Literal["sync", "async", "auto"] = Commit.SYNC,
    per: Per | Literal["record", "batch"] | float = Per.BATCH,
    start: Start = "earliest",
    batch: int = 500,
    retries: int = 3,
    revoke_seconds: float = 10.0,
    once: bool = False,
    stop: Flag | None = None,
) -> Summary:
    """Have a handler called with a topic's events, as a member of a consumer group. Returns what it did.

    `handler(events)` under at-most-once and at-least-once. Under exactly-once:
    with `dsn` it is `handler(events, tx)`: what it writes through the cursor `tx` is committed with the position;
    with `to_topics`, under any guarantee, it returns a list of `fencepost.Output`, which is written to these topics.

    `commit`: "sync", "async" or "auto". `per`: "batch", "record", or seconds between two commits.
    `start`: where the group has no position: "earliest", "latest", "committed" (an error), a time, or offsets.
    `batch`: events at once, at most. `retries`: of a handler that raises.
    `revoke_seconds`: how long the current batch may take when the group asks its partitions back.
    `once`: return when everything is read. `stop`: a threading.Event; when it is set, from any thread or a signal
    handler, the current batch is finished and committed, the group is left, and `consume` returns.

    Waits and goes on after an outage. Raises Usage, UnsupportedGuarantee for what cannot be kept, Unreachable when
    nothing answers at the start, Refused when the handler fails for good, Fenced when another took its place.
    """
    settings = ConsumerSettings(
        kafka,
        topic,
        group,
        Guarantee(guarantee),
        commit=Commit(commit),
        per=Per(per) if isinstance(per, str) else float(per),
        start=start,
        batch=batch,
        retries=retries,
        revoke_seconds=revoke_seconds,
    )
    return run_handler(Consumption(settings, handler, dsn, stop=stop or Flag(), to_topics=tuple(to_topics)), once)


def run_handler(work: Consumption, once: bool = False, listen: Listener = unheard) -> Summary:
    """Until stopped, or (once) drained. Goes on after an outage; raises what a person must see to."""
    with work:
        return RunLoop(once, work.stop, listen).run(work)
