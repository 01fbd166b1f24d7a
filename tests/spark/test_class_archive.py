"""The archive of Spark's classes: made by one Spark, used by the next; damaged, it costs a slower start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.machine import cache
from fencepost.machine.jars import fetch

pytestmark = pytest.mark.proof
PROGRAM = """
from pathlib import Path
from pyspark import SparkContext
from fencepost.engines.spark.session import open_session
with open_session("classes", {"spark.master": "local[2]"}) as spark:
    assert spark.range(10).count() == 10
    print(".jsa" in Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text().replace("classes.jsa", ""))
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A cache that has jars, and no archive."""
    fetch("spark")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "jars").symlink_to(cache.folder() / "jars")
    return tmp_path / "cache"


def _python(place: Path, *words: str) -> str:
    env = {**os.environ, "FENCEPOST_CACHE": str(place)}
    done = subprocess.run(
        [sys.executable, *words], env=env, cwd=place, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done
    return done.stdout.strip()


@pytest.mark.timeout(900)
def test_it_is_made_once_used_by_the_next_and_left_out_when_it_is_damaged(place: Path) -> None:
    assert _python(place, "-c", PROGRAM) == "False"
    _python(place, "-m", "fencepost.engines.spark.class_recording")
    (archive,) = place.glob("cds/spark-*/*.jsa")
    assert _python(place, "-c", PROGRAM) == "True"

    before = archive.stat()
    _python(place, "-m", "fencepost.engines.spark.class_recording")
    assert archive.stat().st_ino == before.st_ino
    assert list(place.glob("cds/draft-*")) == []

    archive.chmod(0o600)
    content = bytearray(archive.read_bytes())
    half = len(content) // 2
    content[4096 : half + 2_000_000] = b"\xff" * (half + 2_000_000 - 4096)
    archive.write_bytes(content)
    _python(place, "-c", PROGRAM)  # Java crashes on it: it is removed, and the run starts without
    assert not archive.exists()
