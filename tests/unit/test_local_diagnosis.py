"""Why a process ended, from logs as they really look."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.local import diagnosis

TAKEN = """[2025-01-01 10:00:00,000] INFO Starting (kafka.server.KafkaRaftServer)
[2025-01-01 10:00:00,100] ERROR [BrokerServer id=1] Fatal error during broker startup. (kafka.server.BrokerServer)
org.apache.kafka.common.KafkaException: Socket server failed to bind to 127.0.0.1:9091.
\tat kafka.network.DataPlaneAcceptor.openServerSocket(SocketServer.scala:1)
Caused by: java.net.BindException: Address already in use
\tat java.base/sun.nio.ch.Net.bind0(Native Method)
[2025-01-01 10:00:00,200] INFO shutting down (kafka.server.BrokerServer)
"""
FATAL = """2025-01-01 10:00:00 UTC [1] LOG:  starting PostgreSQL 18
2025-01-01 10:00:00 UTC [1] FATAL:  data directory "x" has invalid permissions
2025-01-01 10:00:00 UTC [1] DETAIL:  Permissions should be u=rwx (0700).
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (TAKEN, "Fatal error during broker startup. (kafka.server.BrokerServer): java.net.BindException: Address alre"),
        (FATAL, 'data directory "x" has invalid permissions'),
        ("Error occurred during initialization of VM\n\n", "Error occurred during initialization of VM"),
        (
            'Exception in thread "main" x\njava.lang.OutOfMemoryError: heap\n\tat y\n',
            "java.lang.OutOfMemoryError: heap",
        ),
        ("initdb: error: could not create directory\n", "could not create directory"),
        ("", "no output"),
    ],
)
def test_the_last_complaint_is_told(tmp_path: Path, text: str, reason: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(text)
    told = diagnosis.explain({log: 0})
    assert reason in told
    assert told.endswith(f" (see {log})")
    assert "\n" not in told


def test_what_was_said_before_this_start_is_not(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(TAKEN)
    start = diagnosis.sizes([log])
    assert diagnosis.explain(start) == f"no output (see {log})"
    with log.open("a") as more:
        more.write("[x] ERROR something new (y)\n")
    assert diagnosis.explain(start) == f"something new (y) (see {log})"


def test_a_log_that_was_begun_anew_is_read_from_its_start(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text("x" * 10_000)
    start = diagnosis.sizes([log])
    log.write_text("[x] ERROR something new (y)\n")
    assert "something new" in diagnosis.explain(start)


def test_the_second_log_speaks_when_the_first_is_silent(tmp_path: Path) -> None:
    (tmp_path / "out.log").write_text("Unrecognized option: -XX:Nope\n")
    told = diagnosis.explain({tmp_path / "server.log": 0, tmp_path / "out.log": 0})
    assert told == f"Unrecognized option: -XX:Nope (see {tmp_path / 'out.log'})"
