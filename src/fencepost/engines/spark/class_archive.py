"""The archive of the classes that Spark's driver loads (AppCDS), one per Java and Spark: a start takes half as long.

`class_recording` makes it. A run never does: it uses one that is there.
"""

from __future__ import annotations

import hashlib
import shutil
from contextlib import suppress
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home

from fencepost.machine import cache
from fencepost.machine.java import Java

PREFIX = "spark-"
# An archive that does not fit is left alone by Java, with a warning, which is not for the standard output.
QUIET = "-Xlog:disable -Xlog:all=warning:stderr"


def option(java: Java) -> str:
    """For the driver's Java, to use the archive; nothing where none was made for it."""
    found = existing(java)
    return f"-XX:SharedArchiveFile={found} {QUIET}" if found else ""


def existing(java: Java) -> Path | None:
    """The archive for this Java and the Spark of this process, if it is whole.

    Its name says how long it is: Java maps it without reading, and would crash on one that was cut short.
    """
    with suppress(OSError, ValueError):
        for archive in folder(java).glob("*.jsa"):
            if archive.stat().st_size == int(archive.stem) and not set(str(archive)) & set(" \t\"'"):
                return archive
    return None


def drop(java: Java) -> None:
    """Remove it: Java does not start with it."""
    shutil.rmtree(folder(java), ignore_errors=True)


def folder(java: Java) -> Path:
    """Where it belongs."""
    home = spark_home()
    facts = [str(java.executable.resolve()), java.version, str(home)]
    for jar in sorted((home / "jars").glob("*.jar")):  # as Java does when it decides whether an archive fits
        entry = jar.stat()
        facts.append(f"{jar.name} {entry.st_size} {entry.st_mtime_ns}")
    digest = hashlib.sha256("\n".join(facts).encode()).hexdigest()
    return cache.folder() / "cds" / f"{PREFIX}{digest[:16]}"


def spark_home() -> Path:
    return Path(_find_spark_home()).absolute()  # type: ignore[no-untyped-call]
