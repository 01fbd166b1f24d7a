"""What brokers and PostgreSQL logged during a run, and what passed the proxies, kept in its folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencepost.lab.scenarios.field import Field
from fencepost.machine.plain_json import dumped


@contextmanager
def kept_logs(field: Field, folder: Path) -> Iterator[None]:
    """Of the block alone: the stack may have served others before."""
    before, seen = {path: path.stat().st_size for path in _logs(field)}, field.proxy.seen()
    try:
        yield
    finally:
        _copy(field, folder, before)
        passed = [
            {"listener": listener, "request": request, "times": times}
            for (listener, request), times in sorted((field.proxy.seen() - seen).items())
        ]
        (folder / "proxy.jsonl").write_text("".join(dumped(line) + "\n" for line in passed))


def _logs(field: Field) -> list[Path]:
    home = field.stack.home
    return [*sorted(home.glob("kafka/*/server.log")), home / "postgres.log"]


def _copy(field: Field, folder: Path, before: dict[Path, int]) -> None:
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    for path in _logs(field):
        if path.exists():
            start = before.get(path, 0)
            text = path.read_bytes()
            name = path.name if path.parent == field.stack.home else f"{path.parent.name}.log"
            (logs / name).write_bytes(text[start if start <= len(text) else 0 :])  # it may have begun anew
