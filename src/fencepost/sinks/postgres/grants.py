"""Grant of a role: what it lacks is granted, and what it has is left as it is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum

from psycopg import sql

from fencepost.errors import Refused, Usage
from fencepost.sinks.postgres.connection import Connection, translated


class Kind(StrEnum):
    """What a right is on."""

    DATABASE = "database"
    SCHEMA = "schema"
    TABLE = "table"


@dataclass(frozen=True)
class Grant:
    """What may be done with one thing of the database."""

    kind: Kind
    name: tuple[str, ...]  # of a table: its schema and its own
    privileges: tuple[str, ...]

    def __str__(self) -> str:
        return f"{', '.join(self.privileges)} on {self.kind} {'.'.join(self.name)}"


def place_of(connection: Connection, table: str) -> tuple[str, str]:
    """Schema and name of a table that exists, where this connection finds it."""
    query = (
        "SELECT nspname, relname FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = relnamespace "
        "WHERE c.oid = %s::pg_catalog.regclass::pg_catalog.oid"
    )
    with translated(f"look for table {table!r}"):
        name = sql.Identifier(*table.split(".")).as_string(connection)
        schema, own = connection.execute(query, (name,)).fetchone() or ("", table)
    return str(schema), str(own)


def database_of(connection: Connection) -> str:
    with translated("ask which database this is"):
        (name,) = connection.execute("SELECT pg_catalog.current_database()").fetchone() or ("",)
    return str(name)


def grant(connection: Connection, role: str, wanted: Iterable[Grant]) -> list[Grant]:
    """What had to be granted. On return the role has all of it. Raises Usage where there is no such role."""
    _require_role(connection, role)
    granted = [rights for one in wanted if (rights := _lacking(connection, role, one)).privileges]
    for rights in granted:
        statement = sql.SQL("GRANT {} ON {} {} TO {}").format(
            sql.SQL(", ").join(map(_word, rights.privileges)),
            _word(rights.kind.upper()),
            sql.Identifier(*rights.name),
            sql.Identifier(role),
        )
        with translated(f"grant {rights} to {role!r}"):
            connection.execute(statement)
        if (left := _lacking(connection, role, rights)).privileges:  # PostgreSQL only warns of a grant that it left out
            raise Refused(f"PostgreSQL did not grant {left} to {role!r}", f"do it as the owner of the {rights.kind}")
    return granted


def _word(word: str) -> sql.Composable:
    """One of our own words: a privilege or a kind."""
    return sql.SQL(word)


def _require_role(connection: Connection, role: str) -> None:
    with translated(f"look for role {role!r}"):
        found = connection.execute("SELECT 1 FROM pg_catalog.pg_roles WHERE rolname = %s", (role,)).fetchone()
    if not found:
        name = sql.Identifier(role).as_string(connection)
        raise Usage(f"there is no role {role!r} in this database", f"create it: CREATE ROLE {name} LOGIN PASSWORD ...")


def _lacking(connection: Connection, role: str, rights: Grant) -> Grant:
    """Those that the role does not have, by itself, by another role or as everybody."""
    query = sql.SQL(
        "SELECT privilege FROM pg_catalog.unnest(%s::pg_catalog.text[]) AS privilege WHERE NOT {}(%s, %s, privilege)"
    ).format(sql.Identifier("pg_catalog", f"has_{rights.kind}_privilege"))
    table = rights.kind is Kind.TABLE  # by its SQL name, the others by their plain one
    name = sql.Identifier(*rights.name).as_string(connection) if table else rights.name[0]
    with translated(f"see what {role!r} may do"):
        found = connection.execute(query, (list(rights.privileges), role, name)).fetchall()
    return replace(rights, privileges=tuple(privilege for (privilege,) in found))
