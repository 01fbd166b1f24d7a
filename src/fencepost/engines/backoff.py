"""How long to wait before the next try after trouble, and when to give up."""

from __future__ import annotations

import random
from time import monotonic

from fencepost.errors import FencepostError

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
ONCE_GIVES_UP_AFTER = 300.0  # seconds without progress; a run that goes on for ever never gives up


class Backoff:
    """Of one run: with `once` it ends, else it does not."""

    def __init__(self, once: bool) -> None:
        self._limit = ONCE_GIVES_UP_AFTER if once else None
        self.renew()

    def renew(self) -> None:
        """Something landed: whatever was wrong is over."""
        self._tries = 0
        self._since: float | None = None

    def next_wait(self, trouble: FencepostError) -> float:
        """Seconds, doubling up to a limit, a little by chance. Raises the trouble itself when time is up."""
        now = monotonic()
        self._since = now if self._since is None else self._since
        if self._limit is not None and now - self._since > self._limit:
            raise trouble
        self._tries += 1
        longest: float = min(LONGEST_WAIT, FIRST_WAIT * 2 ** min(self._tries, 10))
        return longest * random.uniform(0.5, 1.0)  # noqa: S311 (not a secret)
