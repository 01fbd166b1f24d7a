"""The password of a sink, kept out of what Spark sends to its tasks.

Tasks on this machine read it from a file that only this user can read. A task that runs elsewhere gets it with its
work, over connections that ask for the session's secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkstemp

from fencepost.engines.spark import scratch
from fencepost.errors import Unreachable
from fencepost.sinks.kind import HasSecrets, Target


@dataclass(frozen=True)
class TaskTarget:
    """A target on its way to a task: without its secrets, and where those are."""

    public: Target
    file: Path | None = None

    def whole(self) -> Target:
        """With its secrets again; called in the task."""
        if self.file is None or not isinstance(self.public, HasSecrets):
            return self.public
        try:
            secrets = json.loads(self.file.read_text(encoding="utf-8"))
        except OSError as error:
            raise Unreachable(f"the run of this task is gone: {error.strerror}") from error
        return self.public.with_secrets(secrets)


@contextmanager
def for_tasks(target: Target, here: bool) -> Iterator[TaskTarget]:
    """For tasks that run here, or elsewhere. The file is gone after the block."""
    public, secrets = target.without_secrets() if isinstance(target, HasSecrets) else (target, {})
    if not secrets or not here:
        yield TaskTarget(target)
        return
    handle, file = mkstemp(prefix="login-", dir=scratch.folder())  # 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            json.dump(dict(secrets), written)
        yield TaskTarget(public, Path(file))
    finally:
        Path(file).unlink(missing_ok=True)
