"""Making the archive of Spark's classes: `python -m fencepost.engines.spark.class_recording`, once per Java and Spark.

A Spark of its own is told to write, when it ends, which classes it loaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from fencepost.engines.spark.class_archive import PREFIX, QUIET, drop, existing, folder, spark_home
from fencepost.engines.spark.session import end_jvm, jvm_command, open_session
from fencepost.errors import FencepostError
from fencepost.machine import cache
from fencepost.machine.java import Java, find
from fencepost.machine.progress import Progress, for_stderr

_HOME = "home"  # the file that says whose archive it is
_WRITING = 180.0  # seconds; it takes four where the machine has nothing else to do
_CHECKING = 60.0


def make(progress: Progress) -> Path | None:
    """The archive, which is made now if there is none; None where this Java cannot make one.

    For a process that has no Spark yet.
    """
    java = find()
    if found := existing(java):
        return found
    with cache.exclusive("cds", progress) as part:
        _forget_the_gone(part)
        with tempfile.TemporaryDirectory(dir=part, prefix="draft-") as name:
            draft = Path(name) / "classes.jsa"
            command = _recorded(draft, Path(name))
            if not draft.exists() or not _whole(command, draft):
                return None
            return _kept(draft, java)


def _recorded(draft: Path, work: Path) -> Sequence[str]:
    """Have a Spark of its own write, as it ends, which classes it loaded; its command line."""
    options = f"-XX:ArchiveClassesAtExit={draft} {QUIET}"
    with open_session("classes", {"spark.master": "local[2]", "spark.driver.extraJavaOptions": options}) as spark:
        command = jvm_command()
        _work(spark, work)
    end_jvm(_WRITING)
    return command


def _work(spark: SparkSession, work: Path) -> None:
    """What a pipeline does, without brokers: batches of a stream, SQL, a task in Python, rows for the driver."""
    (work / "in").mkdir()
    (work / "in" / "events").write_text('{"id": 1, "s": "a"}\n{"id": 2, "s": "b"}\n')

    def land(batch: DataFrame, _number: int) -> None:
        batch.createOrReplaceTempView("events")
        query = "SELECT e.id, e.s, count(*) AS n FROM (SELECT from_json(value, 'id long, s string') AS e FROM events)"
        rows = batch.sparkSession.sql(f"{query} WHERE e.id > 0 GROUP BY e.id, e.s")
        rows.mapInArrow(lambda batches: batches, rows.schema).collect()
        rows.toArrow()

    lines = spark.readStream.format("text").load(str(work / "in"))
    stream = lines.writeStream.foreachBatch(land).option("checkpointLocation", str(work / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


def _whole(command: Sequence[str], draft: Path) -> bool:
    """Does Java take it, with the class path that Spark had?"""
    place = command.index("-cp")
    checked = ["-XX:+UseSerialGC", "-Xshare:on", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={draft}"]
    argv = [command[0], *checked, *command[place : place + 2], "-version"]
    return subprocess.run(argv, capture_output=True, timeout=_CHECKING, check=False).returncode == 0


def _kept(draft: Path, java: Java) -> Path:
    """In its place, whole or not at all: under a name that says how long it is."""
    with draft.open("rb") as content:
        os.fsync(content.fileno())
    (draft.parent / _HOME).write_text(str(spark_home()))
    keep = folder(java)
    drop(java)
    keep.mkdir()
    (draft.parent / _HOME).replace(keep / _HOME)
    return draft.replace(keep / f"{draft.stat().st_size}.jsa")


def _forget_the_gone(part: Path) -> None:
    """Archives of a Spark that was removed, and of this one as it was before."""
    for left in part.glob("draft-*"):
        shutil.rmtree(left, ignore_errors=True)
    for other in part.glob(f"{PREFIX}*"):
        with suppress(OSError):
            home = Path((other / _HOME).read_text())
            if home == spark_home() or not home.is_dir():
                shutil.rmtree(other)


def main() -> int:
    """Make it, as `make setup` does."""
    progress = for_stderr()
    try:
        with cache.explained():
            made = make(progress)
    except FencepostError as error:
        progress.note(f"fencepost: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        progress.note("fencepost: interrupted")
        return 130
    progress.note(f"Spark's classes are in {made}" if made else "this Java makes no archive: Spark starts without")
    return 0


if __name__ == "__main__":
    sys.exit(main())
