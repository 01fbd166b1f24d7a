"""Every remedy that is a command, a statement or a setting is followed by a test, or it is said why not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from remedies.listed import FOLLOWED, NOT_FOLLOWED

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "fencepost"
COMMANDS = (
    "audit|consume|demo|doctor|down|group|init|peek|plan|positions|produce|receipt|run|spec|stack|state|status|topic|up"
)
ACTS = re.compile(
    rf"fencepost (?:{COMMANDS})\b|\b(?:ALTER TABLE|GRANT [A-Z{{]|CREATE UNIQUE|CREATE ROLE)|SELECT pg_catalog.pg_term"
    r"inate_backend\(\{|^UPDATE \{\} SET|keytool|openssl |kafka-[a-z-]+\.sh"
)
SETS = re.compile(
    r"\bset (?:[a-z_]+[.:][ \w]|\{\}:|it to off)|\b(?:give|add) --[a-z]|\bleave (?:it at|tombstones:)|"
    r"\bremove it, or|^remove (?:it(?:[:;]|, and|$)|--)|"
    r": remove --|\bwithout (?:--|source\.)|^keep the column _from|\blower min\.|\bgive it replication|pool_mode|"
    r"\buse engine: |: --id|with a pipeline file of"
)
ONLY_LOOKS = re.compile(r"fencepost (?:group (?:list|describe)|topic (?:list|describe)|audit|(?:stack )?status)\b")
WARNERS = {"_warnings", "_moved", "_other_topics", "_changed"}  # the functions of planning.py that warn


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    return "{}" if isinstance(node, ast.FormattedValue) else ""


def _said(tree: ast.AST) -> Iterator[str]:
    """Every text of it, without docstrings."""
    inside = {id(below) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for below in ast.walk(node)}
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        whole = isinstance(node, ast.JoinedStr) or id(node) not in inside
        if isinstance(node, ast.Constant | ast.JoinedStr) and whole and id(node) not in documented:
            yield _text(node)


@cache
def _acting() -> frozenset[str]:
    texts = {text for path in SOURCE.rglob("*.py") for text in _said(ast.parse(path.read_text()))}
    found = {text for text in texts if ACTS.search(ONLY_LOOKS.sub("", text)) or SETS.search(text)}
    return frozenset(found | _warnings())


def _warnings() -> set[str]:
    """What a plan may warn of, in the functions that do and in the constants that they name."""
    tree = ast.parse((SOURCE / "admin" / "plan.py").read_text())
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name in WARNERS]
    assert {node.name for node in functions} == WARNERS
    named = {node.id for one in functions for node in ast.walk(one) if isinstance(node, ast.Name)}
    constants = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in named
    ]
    return {text for node in (*functions, *constants) for text in _said(node) if text.count(" ") > 4}


def test_every_remedy_is_listed() -> None:
    assert _acting() - FOLLOWED.keys() - NOT_FOLLOWED.keys() == set(), "write a test that follows it, and list it"


def test_nothing_is_listed_that_nobody_says_any_more() -> None:
    assert (FOLLOWED.keys() | NOT_FOLLOWED.keys()) - _acting() == set()


def test_nothing_is_listed_twice() -> None:
    assert FOLLOWED.keys() & NOT_FOLLOWED.keys() == set()


@pytest.mark.parametrize("name", sorted(set(FOLLOWED.values())))
def test_the_test_that_follows_it_is_there(name: str) -> None:
    assert any(f"def {name}(" in path.read_text() for path in TESTS.rglob("test_*.py"))
