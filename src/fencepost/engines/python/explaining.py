"""What a consumer's guarantee covers, and what it does not, said before anything is read."""

from __future__ import annotations

from fencepost.engines.python.settings import ConsumerSettings, Per
from fencepost.guarantee import Guarantee

ELSEWHERE = "what it does elsewhere (a call, a file, another database) is not covered: a crash may repeat it"
COVERED = (
    "a handler that does the same work twice without harm (upsert, dedupe by the event's id) covers these repeats, and "
    "by the id also those that a producer made"
)


def coverage(settings: ConsumerSettings, dsn: bool, topics: tuple[str, ...], handler: bool) -> list[str]:
    """In sentences."""
    if dsn:
        return ["what the handler writes through `tx` and the position are committed in one transaction", ELSEWHERE]
    if topics:
        written = "what the handler returns" if handler else "each event"
        return [_into_topics(settings.guarantee, written, ", ".join(topics)), *([ELSEWHERE] if handler else [])]
    much = "one event" if settings.per is Per.RECORD else "one batch of each partition"
    if isinstance(settings.per, float):
        much = f"what was handled in {settings.per:g} s, and one batch of each partition"
    if settings.guarantee is Guarantee.AT_MOST_ONCE:
        return [f"the position is committed before the handler is called: a crash loses {much}, and repeats nothing"]
    return [
        f"the handler is called before the position is committed: a crash repeats {much}, and loses nothing",
        COVERED,
    ]


def _into_topics(guarantee: Guarantee, written: str, topics: str) -> str:
    match guarantee:
        case Guarantee.AT_MOST_ONCE:
            return f"the position is committed first: a crash loses {written} of one batch of each partition"
        case Guarantee.AT_LEAST_ONCE:
            return f"{written} goes to {topics} before the position is committed: a crash repeats one batch of each"
        case Guarantee.EXACTLY_ONCE:
            return f"{written} and the position go to {topics} in one transaction, for readers with read_committed"
