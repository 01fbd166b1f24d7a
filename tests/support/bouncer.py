"""A real PgBouncer in front of a stack's PostgreSQL, as a process of the test's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from pwd import getpwnam
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from psycopg import conninfo

from fencepost.local import Stack
from fencepost.local.ports import choose, listening
from fencepost.machine.process import until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
needs_pgbouncer = pytest.mark.skipif(
    PROGRAM is None, reason="PgBouncer is not installed (Debian: apt install pgbouncer)"
)

SETTINGS = """
[databases]
{dbname} = host={host} port={port} dbname={dbname} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = {mode}
default_pool_size = {size}
"""


@contextmanager
def bouncer(stack: Stack, mode: str, size: int = 2) -> Iterator[str]:
    """The DSN of a pool in this mode, with so many sessions at most."""
    server = conninfo.conninfo_to_dict(stack.dsn)
    password = Path(str(server["passfile"])).read_text().strip().rpartition(":")[2]
    listen = choose(None, ())
    parts = {name: server[name] for name in ("host", "port", "dbname", "user")}
    with TemporaryDirectory(dir="/tmp") as folder:
        ini = Path(folder, "pgbouncer.ini")
        ini.write_text(SETTINGS.format(**parts, password=password, listen=listen, mode=mode, size=size))
        account = _somebody(folder, ini)
        with subprocess.Popen([str(PROGRAM), "-q", str(ini)], stdin=subprocess.DEVNULL, **account) as running:
            try:
                assert until(lambda: listening(listen), 30), "PgBouncer does not listen"
                yield f"host=127.0.0.1 port={listen} user={server['user']} dbname={server['dbname']} sslmode=disable"
            finally:
                running.terminate()


def _somebody(*paths: str | Path) -> dict[str, Any]:
    """PgBouncer refuses to run as root: an account that is nobody's, and may read these."""
    if os.geteuid() != 0:
        return {}
    nobody = getpwnam("nobody")
    for path in paths:
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}
