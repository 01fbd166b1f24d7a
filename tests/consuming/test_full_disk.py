"""PostgreSQL's disk is full, really: the run waits, nothing is torn, and it goes on by itself when there is room."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from consuming.relays import Relay
from fencepost.engines.listener import Waiting
from fencepost.local import Stack

pytestmark = pytest.mark.proof

RECORDS = 2_000
SIZE, FILLED = 24, 20  # MB


@pytest.fixture
def small_disk(stack: Stack) -> Iterator[Path]:
    """A disk of its own that the server may write to."""
    with tempfile.TemporaryDirectory(prefix="small-disk-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}m,mode=755", "none", name]
        if subprocess.run(mount, capture_output=True, check=False).returncode:
            pytest.skip("needs the right to mount a disk")
        try:
            place = folder / "tablespace"
            place.mkdir(mode=0o700)
            server = psutil.Process(stack.postgres.pid).uids().real
            os.chown(place, server, -1)
            yield place
        finally:
            subprocess.run(["umount", "-l", name], check=True)  # noqa: S607


def test_a_full_disk_is_waited_for_and_every_event_lands_once(stack: Stack, small_disk: Path, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    filler = small_disk.parent / "filler"
    filler.write_bytes(b"x" * (FILLED << 20))
    relay.sql(f"CREATE TABLESPACE {relay.name} LOCATION '{small_disk}'")
    try:
        relay.sql(
            f"CREATE TABLE {relay.name} (id bigint, s text, _topic text, _partition integer, _offset bigint, "
            f"_n integer) TABLESPACE {relay.name}"
        )
        values = {id_: b'{"id": %d, "s": "%s"}' % (id_, secrets.token_hex(1_500).encode()) for id_ in range(RECORDS)}
        relay.produce(range(RECORDS), values)
        with relay.running() as running:
            running.wait_until(
                lambda: any("No space left" in one.trouble for one in running.news if isinstance(one, Waiting)),
                "the run waits for room on the disk",
            )
            ((rows, position),) = relay.sql(
                f"SELECT (SELECT count(*) FROM {relay.name}), sum(position) FROM fencepost.positions "
                "WHERE pipeline = %s",
                relay.name,
            )
            assert 0 < rows < RECORDS
            assert rows == position
            filler.unlink()
            running.wait_until(lambda: len(relay.landed()) == RECORDS, "everything landed")
        relay.assert_exact(RECORDS)
    finally:
        relay.sql(f"DROP TABLE IF EXISTS {relay.name}")
        relay.sql(f"DROP TABLESPACE {relay.name}")
