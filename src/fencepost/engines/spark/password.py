"""The password of a connection string, kept out of what Spark sends to its tasks.

Tasks on this machine read it from a file that only this user can read. A task that runs elsewhere gets it with its
work, over connections that ask for the session's secret.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkstemp

from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.engines.spark import scratch
from fencepost.errors import Unreachable
from fencepost.sinks.postgres import PostgresSettings

_SECRET = b"*"  # how libpq marks what no dialog may show
_KEYS = {"scram_client_key", "scram_server_key"}  # which it marks otherwise


@dataclass(frozen=True)
class Login:
    """A sink's settings on their way to a task: without its secrets, and where those are."""

    public: PostgresSettings
    file: Path | None

    def settings(self) -> PostgresSettings:
        """Whole again; called in the task."""
        if self.file is None:
            return self.public
        try:
            secrets = json.loads(self.file.read_text(encoding="utf-8"))
        except OSError as error:
            raise Unreachable(f"the run that this task belongs to is gone: {error.strerror}") from error
        return replace(self.public, dsn=make_conninfo(self.public.dsn, **secrets))


@contextmanager
def login(settings: PostgresSettings, here: bool) -> Iterator[Login]:
    """For tasks that run here, or elsewhere. The file is gone after the block."""
    parts = conninfo_to_dict(settings.dsn)
    names = _KEYS | {option.keyword.decode() for option in pq.Conninfo.get_defaults() if option.dispchar == _SECRET}
    secrets = {name: value for name, value in parts.items() if name in names}
    if not secrets or not here:
        yield Login(settings, None)
        return
    handle, file = mkstemp(prefix="login-", dir=scratch.folder())  # 0600
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as written:
            json.dump(secrets, written)
        rest = make_conninfo("", **{name: value for name, value in parts.items() if name not in names})
        yield Login(replace(settings, dsn=rest), Path(file))
    finally:
        Path(file).unlink(missing_ok=True)
