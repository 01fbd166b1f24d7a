"""The last audit of each pipeline, kept on this machine for whoever asks later: the page shows it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import AwareDatetime, BaseModel, Field

from fencepost.audit.compare import Verdict
from fencepost.audit.findings import Audit, Finding
from fencepost.guarantee import Anomaly
from fencepost.machine import cache, disk
from fencepost.machine.plain_json import dumped

MOST_FINDINGS = 500
LARGEST = 4 << 20  # bytes of a file that is read back
_CODES = {code.value for code in Anomaly}  # another version may have others


class _Finding(BaseModel):
    """What is shown of one."""

    code: str
    id: str | None
    topic: str | None
    partition: int | None
    offset: int | None
    times: int
    expected: int
    last_offset: int | None = None


class _Partition(BaseModel):
    topic: str
    partition: int
    from_: int = Field(alias="from")
    to: int


class _Found(BaseModel):
    verdict: Verdict
    expected: int
    landed: int
    lost: int
    duplicated: int
    phantom: int
    findings: list[_Finding]
    partitions: list[_Partition]


class _Facts(BaseModel):
    """What a file must hold to be shown: another version may have written it, or a full disk cut it."""

    pipeline: str
    servers: str
    topics: list[str]
    at: AwareDatetime
    found: _Found


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
            if None not in (one["topic"], one["partition"], one["offset"]) and one["code"] in _CODES
        ]  # fmt: skip


class KeptRounds:
    """Of a running audit, which compares each record once. Another audit that came in between knows more of what was
    compared before, so it stays, unless a round finds the guarantee broken."""

    def __init__(self, pipeline: str, servers: str, topics: Iterable[str]) -> None:
        self._of = (pipeline, servers, list(topics))
        self._newest = self._at()

    def keep(self, audit: Audit) -> None:
        """Raises as `keep` does."""
        if self._at() == self._newest or audit.verdict is Verdict.BROKEN:
            self._newest = keep(audit, *self._of)

    def _at(self) -> datetime | None:
        pipeline, servers, _ = self._of
        found = kept(pipeline, servers)
        return found.at if found else None


def keep(audit: Audit, pipeline: str, servers: str, topics: Iterable[str]) -> datetime:
    """In place of the one before; says when. Raises Usage, or Unreachable, where that cannot be written."""
    at = datetime.now(UTC)
    facts = {
        "pipeline": pipeline,
        "servers": servers,
        "topics": list(topics),
        "at": at.isoformat(),
        "found": audit.as_json(MOST_FINDINGS),
    }
    path = _file(pipeline, servers)
    with cache.explained():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        disk.write(path, dumped(facts))
    return at


def kept(pipeline: str, servers: str) -> KeptAudit | None:
    """The newest of a pipeline of this cluster; None where there is none, or it cannot be read any more."""
    path = _file(pipeline, servers)
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return None
        text = path.read_text(encoding="utf-8")
        known, found = _Facts.model_validate_json(text, strict=True), json.loads(text)["found"]
    except (OSError, ValueError, RecursionError):
        return None
    return KeptAudit(known.pipeline, known.servers, known.topics, known.at, found)


def _file(pipeline: str, servers: str) -> Path:
    """Servers in any order are the same cluster."""
    name = "\0".join([pipeline, *sorted(server.strip() for server in servers.split(","))])
    return cache.folder() / "audits" / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.json"
