"""A PostgreSQL of our own that speaks TLS only, with certificates made for it. The wheel's has none: Debian's does."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from fencepost.local import postgres_as_root
from fencepost.local.ports import choose
from fencepost.machine.process import until

PROGRAMS = next((found.parent for found in sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))), None)
OPENSSL = shutil.which("openssl")
needs_tls = pytest.mark.skipif(
    PROGRAMS is None or OPENSSL is None,
    reason="no PostgreSQL with TLS is installed (Debian: apt install postgresql openssl)",
)
ACCESS = "hostssl all certified all cert\nhostssl all all all scram-sha-256\n"
PASSWORD = "p&ss w?rd"  # noqa: S105 (of a server that lives for a test)
PATIENCE = 60.0
_FILES = {"cert": "server.crt", "key": "server.key", "ca": "authority.crt"}


@dataclass(frozen=True)
class Certificates:
    """An authority, a server's certificate for the name localhost alone, a client's, and an authority of nobody."""

    folder: Path

    def make(self) -> None:
        for name in ("authority", "stranger"):
            self._new(name, "-x509", "-subj", f"/CN={name}", "-days", "2")
        self._signed("server", "-subj", "/CN=elsewhere", "-addext", "subjectAltName=DNS:localhost")
        self._signed("client", "-subj", "/CN=certified")

    def of(self, name: str, kind: str = "crt") -> Path:
        return self.folder / f"{name}.{kind}"

    def _signed(self, name: str, *words: str) -> None:
        by = ["-CA", str(self.of("authority")), "-CAkey", str(self.of("authority", "key"))]
        self._new(name, "-x509", *words, "-addext", "basicConstraints=critical,CA:FALSE", *by, "-days", "2")

    def _new(self, name: str, *words: str) -> None:
        files = ["-keyout", str(self.of(name, "key")), "-out", str(self.of(name))]
        argv = [str(OPENSSL), "req", "-newkey", "rsa:2048", "-noenc", *words, *files]
        subprocess.run(argv, check=True, capture_output=True)


@dataclass(frozen=True)
class TlsServer:
    """A running one. Its certificate names localhost, not the address."""

    port: int
    certificates: Certificates
    passfile: Path

    @property
    def place(self) -> str:
        """Where it is, and who asks; nothing about TLS."""
        return f"host=localhost port={self.port} user=postgres dbname=postgres passfile={self.passfile}"

    @property
    def dsn(self) -> str:
        return f"{self.place} sslmode=verify-full sslrootcert={self.certificates.of('authority')}"

    def sql(self, text: str) -> list[Any]:
        with closing(psycopg.connect(self.dsn, autocommit=True, connect_timeout=5)) as connection:
            cursor = connection.execute(text.encode())
            return list(cursor.fetchall()) if cursor.description else []

    def answers(self) -> bool:
        try:
            return bool(self.sql("SELECT 1"))
        except psycopg.OperationalError:
            return False


@contextmanager
def tls_server() -> Iterator[TlsServer]:
    folder = Path(tempfile.mkdtemp(prefix="fencepost-tls-"))
    account = postgres_as_root.account()
    own: dict[str, Any] = {"user": account.uid, "group": account.gid, "extra_groups": []} if account else {}
    own["cwd"] = folder
    certificates = Certificates(folder / "certificates")
    certificates.folder.mkdir()
    certificates.make()
    server = TlsServer(choose(None, ()), certificates, folder / "passfile")
    server.passfile.write_text(f"localhost:*:*:*:{PASSWORD}\n")
    server.passfile.chmod(0o600)
    (folder / "password").write_text(PASSWORD)
    theirs = [folder, folder / "password"]
    data = folder / "data"
    try:
        handed = [certificates.of("server"), certificates.of("server", "key"), certificates.of("authority")]
        theirs += [Path(shutil.copy(path, folder)) for path in handed]
        (folder / "server.key").chmod(0o600)
        if account:
            for path in theirs:
                shutil.chown(path, account.uid, account.gid)
        folder.chmod(0o711)
        made = ["-D", str(data), "-U", "postgres", "-A", "scram-sha-256", "--pwfile", str(folder / "password")]
        initdb = [f"{PROGRAMS}/initdb", *made, "-E", "UTF8", "--locale=C"]
        subprocess.run(initdb, check=True, capture_output=True, **own)
        (data / "pg_hba.conf").write_text(ACCESS)
        settings = [f"port={server.port}", "listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off"]
        settings += ["ssl=on", *(f"ssl_{what}_file={folder}/{name}" for what, name in _FILES.items())]
        argv = [f"{PROGRAMS}/postgres", "-D", str(data), *(word for one in settings for word in ("-c", one))]
        with (folder / "log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log, **own) as running:
            try:
                assert until(server.answers, PATIENCE), (folder / "log").read_text()
                yield server
            finally:
                running.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
