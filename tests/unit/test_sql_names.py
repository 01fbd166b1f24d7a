"""Every function and type in our SQL is PostgreSQL's own by name: nobody's `search_path` can lead it elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "fencepost"
ASKING = [  # whatever talks to PostgreSQL
    *sorted((SOURCE / "sinks" / "postgres").glob("*.py")),
    *sorted((SOURCE / "sinks" / "postgres").glob("*.sql")),
    SOURCE / "audit" / "receipt.py",
    SOURCE / "engines" / "spark" / "staging.py",
    SOURCE / "local" / "postgres.py",
]

# What PostgreSQL's grammar knows by itself, and nobody can replace
GRAMMAR = """
select from where and or not in any all exists values on set into using rows filter over as join by key coalesce
greatest least extract nullif operator check references primary unique index with conflict copy format is then insert
update delete merge when partition
""".split()  # noqa: SIM905
TYPES = {"bigint", "integer", "smallint", "boolean", "interval"}  # the others are looked for in the search_path
SQL = re.compile(r"\b(SELECT|INSERT INTO|UPDATE|DELETE|MERGE|CREATE|DROP|TRUNCATE|GRANT|OPERATOR|OVER)\b")
CALL = re.compile(r"(?<![\w.%\"])([a-z_]\w*) ?\(", re.IGNORECASE)
CAST = re.compile(r"::([a-z_][\w.]*)")
CATALOG = re.compile(r"\b(?:FROM|JOIN) (pg_\w+)\b(?!\.)")


def sql_texts(path: Path) -> Iterator[str]:
    source = path.read_text()
    if path.suffix == ".sql":
        yield re.sub(r"--.*", "", source)
        return
    tree = ast.parse(source)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docs else None
        if isinstance(text, str) and SQL.search(text):
            yield text


@pytest.mark.parametrize("path", ASKING, ids=lambda path: path.name)
def test_functions_types_and_catalogs_are_named_with_their_schema(path: Path) -> None:
    for text in sql_texts(path):
        calls = {name for name in CALL.findall(text) if name.lower() not in GRAMMAR}
        assert not {name for name in calls if not _is_a_table(name, text)}, text
        kinds = set(CAST.findall(text)) - TYPES
        assert not {kind for kind in kinds if not kind.startswith("pg_catalog.")}, text
        assert not CATALOG.findall(text), text


def _is_a_table(name: str, text: str) -> bool:
    """`INSERT INTO x.spans (`, `AS span (`: names that columns follow."""
    return re.search(rf"(?:AS|TABLE|INTO|ON) (?:\S+\.)?{re.escape(name)} ?\(", text) is not None


def test_there_is_something_to_look_at() -> None:
    assert sum(1 for path in ASKING for _ in sql_texts(path)) > 40
