"""Bytes of records as people read them: JSON that folds, text, or hexadecimal. Pure; what is shown is bounded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fencepost.kafka.messages import Content
from fencepost.machine.printable import visible

PREVIEW = 160  # characters
WHOLE = 256 << 10  # bytes on the page of one record
MOST_NODES, DEEPEST = 400, 20
_ROW = 16  # bytes of a line of hexadecimal
MOST_LINES = 512


@dataclass(frozen=True)
class Node:
    """A part of a JSON document: a value, or something that folds."""

    name: str | None
    text: str
    kind: str  # object, array, string, number, word
    children: tuple[Node, ...] = ()


@dataclass(frozen=True)
class Readable:
    """What there is to show of some bytes."""

    kind: str  # null, empty, json, text, bytes
    preview: str
    size: int
    cut: bool
    note: str = ""


def readable(content: Content | None) -> Readable:
    if content is None:
        return Readable("null", "null", 0, cut=False)
    if not content.data:
        return Readable("empty", "empty", 0, cut=False)
    text = decoded(content)
    if text is None:
        note = _framed(content.data)
        return Readable("bytes", content.data[: PREVIEW // 3].hex(" "), content.size, content.cut, note)
    kind = "json" if _looks_like_json(text, content.cut) else "text"
    return Readable(kind, visible(text[:PREVIEW]), content.size, content.cut or len(text) > PREVIEW)


def decoded(content: Content) -> str | None:
    """As UTF-8; None where it is none. What was cut may end inside a character."""
    for lacking in range(4 if content.cut else 1):
        try:
            return content.data[: len(content.data) - lacking].decode()
        except UnicodeDecodeError:
            continue
    return None


def _looks_like_json(text: str, cut: bool) -> bool:
    return text.lstrip()[:1] in ("{", "[") if cut else parsed(text) is not None


def parsed(text: str) -> Any | None:
    """An object or an array; None for anything else, and for what is too deep or has numbers too long."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def tree(document: Any) -> Node:
    """Bounded in nodes and depth, whatever the document is like."""
    return _node(None, document, 0, iter(range(MOST_NODES)))


def _node(name: str | None, value: Any, depth: int, room: Iterator[int]) -> Node:
    named = None if name is None else visible(name)
    if isinstance(value, dict | list):
        kind, many = ("object", f"{{{len(value):,}}}") if isinstance(value, dict) else ("array", f"[{len(value):,}]")
        if depth >= DEEPEST:
            return Node(named, f"{many} …", kind)
        pairs = value.items() if isinstance(value, dict) else ((str(n), one) for n, one in enumerate(value))
        return Node(named, many, kind, tuple(_children(pairs, depth, room)))
    if isinstance(value, str):
        return Node(
            named, visible(json.dumps(value[:2_000], ensure_ascii=False)) + ("…" * (len(value) > 2_000)), "string"
        )
    return Node(named, json.dumps(value)[:2_000], "number" if type(value) in (int, float) else "word")


def _children(pairs: Any, depth: int, room: Iterator[int]) -> Iterator[Node]:
    for name, value in pairs:
        if next(room, None) is None:
            yield Node(None, "… more than is shown", "word")
            return
        yield _node(name, value, depth + 1, room)


def lines(text: str) -> list[str]:
    """Of a text, each fit to be shown."""
    return [visible(line) for line in text.replace("\r\n", "\n").split("\n")]


def hexadecimal(data: bytes) -> list[str]:
    """Offset, bytes and what of them is printable, as `hexdump -C` has it."""
    found = [_hex_line(data, at) for at in range(0, min(len(data), _ROW * MOST_LINES), _ROW)]
    return [*found, f"… {len(data) - _ROW * MOST_LINES:,} bytes more"] if len(data) > _ROW * MOST_LINES else found


def _hex_line(data: bytes, at: int) -> str:
    row = data[at : at + _ROW]
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
    return f"{at:08x}  {row.hex(' '):<{3 * _ROW}} {text}"


def _framed(data: bytes) -> str:
    """As serializers of a schema registry begin: a zero, and the schema's id in four bytes."""
    if data[0] == 0 and len(data) > 5:
        return f"may be of schema {int.from_bytes(data[1:5], 'big'):,} of a registry"
    return ""
