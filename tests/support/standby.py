"""A primary and a streaming standby of our own: the standby stops listening, the primary dies, the other takes over."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from fencepost.local import postgres
from fencepost.local.ports import choose
from fencepost.machine.process import until

HOST = "127.0.0.1"
PATIENCE = 60.0


@dataclass
class Pair:
    """Behind one connection string, of which the one that takes writes answers."""

    folder: Path
    programs: Path
    account: Any
    ports: tuple[int, int]
    running: dict[str, subprocess.Popen[Any]] = field(default_factory=dict)

    @property
    def dsn(self) -> str:
        where = f"host={HOST},{HOST} port={self.ports[0]},{self.ports[1]} target_session_attrs=read-write"
        return f"{where} user=postgres dbname=postgres sslmode=disable"

    def sql(self, text: str, dsn: str | None = None) -> list[Any]:
        with closing(psycopg.connect(dsn or self.dsn, autocommit=True, connect_timeout=5)) as connection:
            cursor = connection.execute(text.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def of(self, name: str) -> str:
        port = self.ports[0] if name == "primary" else self.ports[1]
        return f"host={HOST} port={port} user=postgres dbname=postgres sslmode=disable"

    def command(self, program: str, *arguments: str) -> None:
        subprocess.run([self.programs / program, *arguments], check=True, capture_output=True, **self._as())

    def start(self, name: str) -> None:
        port = self.ports[0] if name == "primary" else self.ports[1]
        settings = [f"port={port}", f"listen_addresses={HOST}", "unix_socket_directories=", "fsync=off"]
        argv = [str(self.programs / "postgres"), "-D", str(self.folder / name)]
        argv += [word for setting in settings for word in ("-c", setting)]
        with (self.folder / f"{name}.log").open("ab") as log:
            self.running[name] = subprocess.Popen(argv, stdout=log, stderr=log, **self._as())
        assert until(lambda: self._answers(name), PATIENCE), (self.folder / f"{name}.log").read_text()

    def _answers(self, name: str) -> bool:
        try:
            return bool(self.sql("SELECT 1", self.of(name)))
        except psycopg.OperationalError:
            return False

    def _as(self) -> dict[str, Any]:
        own = {"user": self.account.uid, "group": self.account.gid, "extra_groups": []} if self.account else {}
        return {**own, "cwd": self.folder}

    def stop_listening(self) -> None:
        """The standby has all that is committed now, and gets nothing after it."""
        ((written,),) = self.sql("SELECT pg_current_wal_flush_lsn()::text", self.of("primary"))
        caught_up = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
        assert until(lambda: self.sql(caught_up, self.of("standby"))[0][0], PATIENCE)
        self.sql("ALTER SYSTEM SET primary_conninfo = ''", self.of("standby"))
        self.sql("SELECT pg_reload_conf()", self.of("standby"))
        assert until(lambda: not self.sql("SELECT 1 FROM pg_stat_wal_receiver", self.of("standby")), PATIENCE)

    def fail_over(self) -> None:
        self.running["primary"].kill()
        self.running["primary"].wait()
        self.sql("SELECT pg_promote(true, 60)", self.of("standby"))

    def end(self) -> None:
        for server in self.running.values():
            server.kill()
            server.wait()


@contextmanager
def standby_pair() -> Iterator[Pair]:
    home = Path(tempfile.mkdtemp(prefix="fencepost-pair-"))
    account = postgres.server(home).account
    programs = postgres.server(home).programs
    folder = Path(tempfile.mkdtemp(prefix="fencepost-pair-data-"))
    if account:
        shutil.chown(folder, account.uid, account.gid)
    first = choose(None, ())
    second = choose(None, (first,))
    pair = Pair(folder, programs, account, (first, second))
    try:
        pair.command(
            "initdb", "-D", str(folder / "primary"), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C"
        )
        pair.start("primary")
        pair.command("pg_basebackup", "-D", str(folder / "standby"), "-d", pair.of("primary"), "-R", "-X", "stream")
        pair.start("standby")
        yield pair
    finally:
        pair.end()
        shutil.rmtree(folder, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)
