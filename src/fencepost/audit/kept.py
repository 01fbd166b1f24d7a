"""The last audit of each pipeline, kept on this machine for whoever asks later: the page shows it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from fencepost.audit.findings import Audit, Finding
from fencepost.guarantee import Anomaly
from fencepost.machine import cache, disk
from fencepost.machine.plain_json import dumped

MOST_FINDINGS = 500
LARGEST = 4 << 20  # bytes of a file that is read back
_CODES = {code.value for code in Anomaly}  # another version may have others
_SHOWN = ("verdict", "expected", "landed", "lost", "duplicated", "phantom", "findings", "partitions")


@dataclass(frozen=True)
class KeptAudit:
    """What was found, and when."""

    pipeline: str
    servers: str
    topics: list[str]
    at: datetime
    found: dict[str, Any]  # as `fencepost audit --format json` has it

    @property
    def findings(self) -> list[Finding]:
        """Those with a place."""
        return [
            Finding(Anomaly(one["code"]), one.get("id"), one["topic"], one["partition"], one["offset"],
                    last_offset=one.get("last_offset"))
            for one in self.found["findings"]
            if one.get("offset") is not None and one["code"] in _CODES
        ]  # fmt: skip


def keep(audit: Audit, pipeline: str, servers: str, topics: Iterable[str]) -> None:
    """In place of the one before. Raises Usage, or Unreachable, where that cannot be written."""
    facts = {
        "pipeline": pipeline,
        "servers": servers,
        "topics": list(topics),
        "at": datetime.now(UTC).isoformat(),
        "found": audit.as_json(MOST_FINDINGS),
    }
    path = _file(pipeline, servers)
    with cache.explained():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk.write(path, dumped(facts))


def kept(pipeline: str, servers: str) -> KeptAudit | None:
    """The newest of a pipeline of this cluster; None where there is none, or it cannot be read any more."""
    path = _file(pipeline, servers)
    try:
        if path.stat().st_size > LARGEST:
            return None
        facts = json.loads(path.read_text(encoding="utf-8"))
        at, found = datetime.fromisoformat(facts["at"]), facts["found"]
        if not set(_SHOWN) <= found.keys():
            return None
        return KeptAudit(facts["pipeline"], facts["servers"], list(facts["topics"]), at, found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _file(pipeline: str, servers: str) -> Path:
    """Servers in any order are the same cluster."""
    name = "\0".join([pipeline, *sorted(server.strip() for server in servers.split(","))])
    return cache.folder() / "audits" / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
