"""A database in which somebody with CREATE on `public` has laid out functions and operators with our SQL's names.

Whoever calls one of them would run that person's code with his own rights. Here it raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.conninfo import make_conninfo

import fencepost

CALLED = re.compile(r"pg_catalog\.(\w+)\(")

# PostgreSQL prefers the function whose arguments are exactly what is given, wherever it is.
NARROWER = {
    "bigint": ("integer", "smallint"),
    "integer": ("smallint",),
    "text": ("name", "character varying"),
    "anyarray": ("text[]", "integer[]", "bigint[]"),
    '"any"': ("bigint", "text"),
    "regclass": ("oid", "text"),
    "anynonarray": ("text", "integer"),
    "numeric": ("integer", "bigint"),
}
OPERATORS = ("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "||", "~~")
ALIKE = """
boolean smallint integer bigint numeric text varchar bpchar name uuid oid regclass tid timestamptz interval date xid
"char"
""".split()  # noqa: SIM905
UNLIKE = [
    ("oid", "regclass"), ("oid", "regnamespace"), ("regclass", "oid"), ("numeric", "integer"), ("numeric", "bigint"),
    ("numeric", "smallint"), ("bigint", "integer"), ("bigint", "smallint"), ("integer", "smallint"),
    ("integer", "bigint"), ("name", "text"), ("text", "name"), ("varchar", "text"), ("text", "varchar"),
    ("regproc", "integer"), ("timestamptz", "interval"), ("varchar", "name"),
]  # fmt: skip


@contextmanager
def trapped_database(dsn: str) -> Iterator[str]:
    """Its DSN; dropped at the end."""
    name = f"trap_{uuid4().hex[:10]}"
    mallory, secret = f"{name}_mallory", uuid4().hex
    with closing(psycopg.connect(dsn, autocommit=True)) as owner:
        owner.execute(f"CREATE DATABASE {name}")
        owner.execute(f"CREATE ROLE {mallory} LOGIN PASSWORD '{secret}'")
        there = make_conninfo(dsn, dbname=name)
        try:
            with closing(psycopg.connect(there, autocommit=True)) as own:
                own.execute("GRANT CREATE ON SCHEMA public TO PUBLIC")
            with closing(psycopg.connect(make_conninfo(there, user=mallory, password=secret))) as attacker:
                _lay(attacker)
            yield there
        finally:
            owner.execute(f"DROP DATABASE {name} WITH (FORCE)")
            owner.execute(f"DROP ROLE {mallory}")


def _lay(connection: psycopg.Connection[Any]) -> None:
    called = {
        name for path in Path(fencepost.__file__).parent.rglob("*.py") for name in CALLED.findall(path.read_text())
    }
    found = connection.execute(
        "SELECT proname::text, array(SELECT format_type(kind, NULL) FROM unnest(proargtypes) kind) FROM pg_proc "
        "WHERE pronamespace = 'pg_catalog'::regnamespace AND proname = ANY(%s)",
        (sorted(called),),
    ).fetchall()
    functions = {
        (name, given)
        for name, kinds in found
        for given in product(*([kind, *NARROWER.get(kind, ())] for kind in kinds))
    }
    for name, kinds in sorted(functions):
        _try(
            connection,
            f"CREATE FUNCTION public.{name}({', '.join(kinds)}) RETURNS boolean LANGUAGE plpgsql AS {_body(name)}",
        )
    for left, right in [*((kind, kind) for kind in ALIKE), *UNLIKE]:
        _try(
            connection,
            f"CREATE FUNCTION public.trap({left}, {right}) RETURNS boolean LANGUAGE plpgsql AS {_body('an operator')}",
        )
        for operator in OPERATORS:
            _try(
                connection,
                f"CREATE OPERATOR public.{operator} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.trap)",
            )
    connection.commit()


def _body(name: str) -> str:
    return f"$$ BEGIN RAISE EXCEPTION 'trapped by {name}' USING ERRCODE = '42501'; END $$"


def _try(connection: psycopg.Connection[Any], text: str) -> None:
    """Some kinds of arguments cannot be given."""
    try:
        with connection.transaction():
            connection.execute(text.encode())
    except psycopg.Error:
        pass
