"""The jars of Kafka's brokers and of Spark's connectors, in a cache that all runs share.

`ivy.xml` pins every version and `jars.sha256` every byte. `python -m fencepost.machine.jars` fetches all of them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fencepost.errors import FencepostError, Unreachable
from fencepost.machine import cache, ivy
from fencepost.machine.ivy import CONFIGURATIONS, Configuration
from fencepost.machine.progress import Progress, Silent, for_stderr

_MARKS = "verified.json"
_TRIES = 2  # the second one without what Ivy kept from an earlier, interrupted fetch


def fetch(*configurations: Configuration, progress: Progress | None = None) -> list[Path]:
    """The jars of these configurations, each verified; fetched first where they are missing or damaged.

    Raises Unreachable when they can be had neither from the cache nor from a repository.
    """
    names = [pin.file for pin in ivy.pins() if pin.configuration in configurations]
    jars = cache.folder() / "jars"
    with cache.explained():
        if suspects := _unmarked(jars, names):
            _repair(jars, suspects, progress or Silent())
    return [jars / name for name in names]


def _repair(jars: Path, suspects: Sequence[str], progress: Progress) -> None:
    if jars.is_dir() and not os.access(jars, os.W_OK) and not _damaged(jars, suspects):
        return  # a cache that somebody else filled for us: whole, and not ours to mark
    with cache.exclusive("jars", progress):
        bad = _damaged(jars, suspects)
        for _try in range(_TRIES):
            if not bad:
                break
            _bring(jars, bad, progress)
            bad = _damaged(jars, bad)
        if bad:
            raise Unreachable(f"{bad[0]} does not have the checksum it is pinned to", ivy.MIRROR)
        _mark(jars, suspects)


def _bring(jars: Path, names: Sequence[str], progress: Progress) -> None:
    """Fetch the named jars beside the others and move them in, one rename each, if they are what was pinned."""
    fetched = ivy.retrieve(names, cache.folder() / "fetching", progress)
    good = set(names) - set(_damaged(fetched, names))
    for name in good:
        (fetched / name).replace(jars / name)
    # Kept only when the fetch was interrupted, so that the next one goes on where it ended.
    shutil.rmtree(cache.folder() / "fetching")


def _unmarked(jars: Path, names: Iterable[str]) -> list[str]:
    """Those that are not as they were when they were verified. A warm start reads the marks and no jar."""
    marks, digests = _marks(jars), _digests()
    return [name for name in names if name not in marks or marks[name] != _stamp(jars / name, digests[name])]


def _marks(jars: Path) -> dict[str, Any]:
    try:
        marks = json.loads((jars / _MARKS).read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}
    return marks if isinstance(marks, dict) else {}


def _mark(jars: Path, names: Iterable[str]) -> None:
    digests = _digests()
    marks = _marks(jars) | {name: _stamp(jars / name, digests[name]) for name in names}
    draft = jars / f"{_MARKS}.draft"
    draft.write_text(json.dumps(marks))
    draft.replace(jars / _MARKS)


def _stamp(jar: Path, digest: str) -> list[object] | None:
    if not jar.is_file():
        return None
    facts = jar.stat()
    return [facts.st_size, facts.st_mtime_ns, digest]


def _damaged(jars: Path, names: Iterable[str]) -> list[str]:
    """Those that are missing or are not what was pinned: every byte is read."""
    digests = _digests()
    return [name for name in names if _digest(jars / name) != digests[name]]


def _digests() -> dict[str, str]:
    lines = (Path(__file__).parent / "jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def _digest(jar: Path) -> str | None:
    if not jar.is_file():
        return None
    with jar.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def main() -> int:
    """Fetch everything, as `make setup` does."""
    progress = for_stderr()
    try:
        found = fetch(*CONFIGURATIONS, progress=progress)
    except FencepostError as error:
        progress.note(f"fencepost: {error}")
        return error.exit_code
    except KeyboardInterrupt:
        progress.note("fencepost: interrupted; what was fetched is kept")
        return 130
    progress.note(f"{len(found)} jars in {cache.folder() / 'jars'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
