"""Bytes of records as people read them."""

from __future__ import annotations

import pytest

from fencepost.kafka.messages import Content
from fencepost.web.values import MOST_NODES, Node, hexadecimal, lines, parsed, readable, tree
from support.hostile import DEEP, KEYS, TEXTS, VALUES


def content(data: bytes, size: int | None = None) -> Content:
    return Content(data, len(data) if size is None else size)


@pytest.mark.parametrize("value", [*VALUES.values(), *KEYS.values()])
def test_whatever_it_is_it_is_shown_on_one_short_line(value: bytes | None) -> None:
    shown = readable(None if value is None else content(value))
    assert "\n" not in shown.preview
    assert len(shown.preview) < 2_000
    assert shown.preview.isprintable()


def test_kinds() -> None:
    kinds = {b"": "empty", b'{"a": 1}': "json", b"[1": "text", b"12": "text", b"\xff\xfe": "bytes"}
    assert {data: readable(content(data)).kind for data in kinds} == kinds
    assert readable(None).kind == "null"
    assert readable(content(b"\0\0\0\1\0\xff")).note == "may be of schema 256 of a registry"


def test_what_was_cut_inside_a_character_is_still_text() -> None:
    whole = "价格".encode()
    assert readable(content(whole[:-1], 6)).kind == "text"
    assert readable(content(whole[:-1])).kind == "bytes"


def test_too_deep_or_too_long_is_text() -> None:
    assert parsed("[" * DEEP) is None
    assert parsed('{"a": ' + "9" * 5_000 + "}") is None


def count(node: Node) -> int:
    return 1 + sum(map(count, node.children))


def depth(node: Node) -> int:
    return 1 + max(map(depth, node.children), default=0)


def test_a_tree_is_bounded() -> None:
    assert count(tree([[n] * 50 for n in range(1_000)])) < 2 * MOST_NODES
    document: object = 1
    for _ in range(500):
        document = [document]
    assert depth(tree(document)) < 30


@pytest.mark.parametrize("text", TEXTS.values())
def test_no_text_steers_or_turns_around(text: str) -> None:
    assert all(line.isprintable() for line in lines(text))
    node = tree({text: text}).children[0]
    assert (node.name or "").isprintable()
    assert node.text.isprintable()


def test_hexadecimal_is_bounded() -> None:
    assert hexadecimal(b"ab\0") == [f"00000000  {'61 62 00':<48} ab."]
    assert len(hexadecimal(b"x" * 1_000_000)) < 600
