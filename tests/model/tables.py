"""The table that a first run finds, as SQL."""

from __future__ import annotations

from psycopg import Connection, sql

from model.case import Case, Existing

PROVENANCE = {"_topic": "text", "_partition": "integer", "_offset": "bigint", "_n": "integer"}
MORE = {
    Existing.DEFAULT: "z integer DEFAULT 5",
    Existing.GENERATED_TOO: "z integer GENERATED ALWAYS AS (1) STORED",
    Existing.REQUIRED: "z integer NOT NULL",
    Existing.CHECK: "CHECK (k <> 7)",
    Existing.UNIQUE: "UNIQUE (k)",
}
FILLED = {Existing.DEFAULT: 5, Existing.GENERATED_TOO: 1}  # what column z holds


def create_table(connection: Connection, table: str, case: Case) -> None:
    if case.existing is Existing.NONE:
        return
    connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(table), sql.SQL(_parts(case))))


def _parts(case: Case) -> str:
    columns = {name: kind.postgres for name, kind in case.fields} | (PROVENANCE if case.provenance else {})
    match case.existing:
        case Existing.NARROW:
            columns["a"] = "character varying(4)"
        case Existing.NOT_NULL:
            columns["a"] += " NOT NULL"
        case Existing.GENERATED:
            columns["a"] += f" GENERATED ALWAYS AS (NULL::{columns['a']}) STORED"
        case Existing.MISSING:
            del columns["a"]
    parts = [f"{name} {declared}" for name, declared in columns.items()]
    if case.existing in MORE:
        parts.append(MORE[case.existing])
    if case.key:
        parts.append(f"PRIMARY KEY ({', '.join(case.key)})")
    return ", ".join(parts)
