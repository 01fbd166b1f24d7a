"""What Spark made of a transform, kept for the next `plan` of the same file: needs no Spark.

Kept is what depends on nothing but the file, the code and the versions. Whatever else a function looks at while it is
tried is not known here, so `plan` says when that was; a run tries the transform itself, always.
"""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

import pyarrow as pa

from fencepost.kafka.config.java import java_settings
from fencepost.machine import cache
from fencepost.rows.shape import Preview
from fencepost.spec import PipelineSpec

MOST = 50  # pipelines that are remembered
_PACKAGES = ("fencepost", "pyspark", "pyarrow", "pandas", "deltalake", "pyiceberg")
_HOME = Path(__file__).resolve().parents[2]  # of this package


def found(spec: PipelineSpec) -> Preview | None:
    """What was kept of it, if nothing changed since. Raises Usage for settings that Spark cannot have."""
    java_settings(spec.kafka)
    with suppress(OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        kept = json.loads(_place(spec).read_bytes())
        if all(_digest(Path(name)) == digest for name, digest in kept["files"].items()):
            return _preview(kept)
    return None


def keep(spec: PipelineSpec, preview: Preview) -> None:
    """For the next time. Where the cache cannot be written there is none."""
    entry = {
        "files": {str(path): _digest(path) for path in _code(spec)},
        "columns": base64.b64encode(preview.columns.serialize()).decode(),
        "wide_node": preview.wide_node,
        "provenance": preview.provenance,
        "settings": dict(preview.settings),
        "within_batch": preview.within_batch,
        "tried": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    with suppress(OSError):
        place = _place(spec)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)  # its name is made of passwords, too
        with NamedTemporaryFile("w", dir=place.parent, delete=False, encoding="utf-8") as file:
            json.dump(entry, file)
        Path(file.name).replace(place)
        newest = sorted(place.parent.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
        for old in newest[MOST:]:
            old.unlink()


def _preview(kept: dict[str, Any]) -> Preview:
    schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(kept["columns"])))
    made = Preview(schema, kept["wide_node"], kept["provenance"], kept["settings"], kept["within_batch"])
    return replace(made, tried=datetime.fromisoformat(kept["tried"]))


def _place(spec: PipelineSpec) -> Path:
    facts = [
        spec.model_dump_json(serialize_as_any=True),
        spec.folder,
        sys.version,
        *map(_version, _PACKAGES),
        *_own_code(),
    ]
    return cache.folder() / "previews" / f"{hashlib.sha256(repr(facts).encode()).hexdigest()}.json"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def _own_code() -> Iterator[str]:
    """This package's files, as far as it takes no time: they may change without a new version."""
    for path in sorted(_HOME.rglob("*.py")):
        facts = path.stat()
        yield f"{path} {facts.st_size} {facts.st_mtime_ns}"


def _code(spec: PipelineSpec) -> set[Path]:
    """The files that may have had a part in the trial: the function's, and of what is loaded all but the installed."""
    transform = spec.transform
    name = (transform.spark or transform.arrow or "").rpartition(":")[0] if transform else ""
    named = Path(spec.folder, name) if name.endswith(".py") else getattr(sys.modules.get(name), "__file__", None)
    files = {Path(named).resolve()} if named else set()
    installed = tuple({str(Path(path).resolve()) for path in sysconfig.get_paths().values()})
    loaded = {Path(str(one.__file__)).resolve() for one in [*sys.modules.values()] if getattr(one, "__file__", None)}
    return files | {path for path in loaded if not str(path).startswith((*installed, str(_HOME)))}


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
