"""`fencepost` as a person runs it, and what is found of a stack from outside."""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import psycopg
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from support import commands
from support.signals import attended


class Ended(commands.Ended):
    """A command that ended."""

    @property
    def status(self) -> dict[str, Any]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found

    @property
    def pids(self) -> dict[str, int | None]:
        return {node["name"]: node["pid"] for node in self.status["nodes"]}

    @property
    def complaint(self) -> str:
        """The last line; there is no other of ours, and no traceback."""
        complaints = [line for line in self.err.splitlines() if line.startswith("fencepost: ")]
        assert len(complaints) == 1, self.err
        assert "Traceback" not in self.err
        return complaints[0]


def begin(*words: str, env: Mapping[str, str] | None = None, under: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    """Start a command; `under` is a program that starts it."""
    return subprocess.Popen(
        attended([*under, *commands.argv(*words)]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(env or {})},
    )


def ended(command: subprocess.Popen[str]) -> Ended:
    out, err = command.communicate(timeout=120)
    return Ended(command.returncode, out, err)


def run(*words: str, env: Mapping[str, str] | None = None, under: tuple[str, ...] = ()) -> Ended:
    return ended(begin(*words, env=env, under=under))


def up(home: Path) -> Ended:
    done = run("up", "--home", str(home), "--format", "json")
    assert done.code == 0, done
    return done


def status(home: Path) -> Ended:
    done = commands.here("stack", "status", "--home", home, "--format", "json")
    return Ended(done.code, done.out, done.err)


def standing(home: Path) -> Ended:
    """The status of a stack that is up; it is started if it is not."""
    found = status(home)
    return found if found.code == 0 else up(home)


def processes_of(home: Path) -> list[int]:
    """The pids of everything whose command line or working folder lies in this home, or is its database's."""
    database = (home / "postgres").resolve()
    found = []
    for entry in psutil.process_iter(["cmdline", "cwd"]):
        words = " ".join(entry.info["cmdline"] or ())
        folder = entry.info["cwd"] or ""
        if f"fencepost.home={home}" in words or str(database) in words or folder.startswith(str(database)):
            found.append(entry.pid)
    return [pid for pid in found if pid != os.getpid()]


@dataclass(frozen=True)
class Keepsake:
    """Something that was put into a stack: a record in a topic and a row in a table."""

    word: str

    @classmethod
    def leave(cls, found: Mapping[str, Any]) -> Keepsake:
        keepsake = cls(f"keepsake_{uuid.uuid4().hex[:12]}")
        servers = {"bootstrap.servers": found["bootstrap.servers"]}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic(keepsake.word, 1, 3)])[keepsake.word].result(30)
        producer = Producer(servers | {"acks": "all"})
        producer.produce(keepsake.word, keepsake.word)
        assert producer.flush(30) == 0
        with psycopg.connect(found["postgres"]) as sql:
            sql.execute(f"CREATE TABLE {keepsake.word} AS SELECT 1 AS here")
        return keepsake

    def check(self, found: Mapping[str, Any]) -> None:
        """It is still there, in both."""
        settings = {"bootstrap.servers": found["bootstrap.servers"], "group.id": self.word}
        consumer = Consumer(settings | {"auto.offset.reset": "earliest"})
        try:
            consumer.assign([TopicPartition(self.word, 0, 0)])
            message = consumer.poll(30)
            assert message is not None
            assert message.error() is None, message.error()
            assert message.value() == self.word.encode()
        finally:
            consumer.close()
        with psycopg.connect(found["postgres"]) as sql:
            assert sql.execute(f"SELECT here FROM {self.word}").fetchone() == (1,)
