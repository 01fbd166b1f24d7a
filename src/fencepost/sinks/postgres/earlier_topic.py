"""Rows of a topic that was deleted and created again: to upsert their higher offsets look newer than new records."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg import sql

from fencepost.errors import Usage
from fencepost.fence import Stored
from fencepost.model import Merge, Mode
from fencepost.sinks.postgres.connection import Connection, table_name, translated
from fencepost.sinks.postgres.reading import has_columns

_RENAME = "UPDATE {} SET _topic = {} WHERE _topic = {}"


def require_renamed(
    connection: Connection, table: str, merge: Merge | None, stored: Stored, topic_ids: Mapping[str, str]
) -> None:
    """Raises Usage while rows of an earlier topic bear the name of the new one, where upsert compares their offsets.

    The statement in the remedy gives them the name under which the earlier topic's spans are kept. With `order_by`
    values decide, and dedupe keeps what is there: nothing to do. Reads the whole table unless _topic has an index.
    """
    if merge is None or merge.mode is not Mode.UPSERT or merge.order_by:
        return
    before = {at.topic: held.topic_id for at, held in stored.items() if held.topic_id}
    other = {topic: id_ for topic, id_ in before.items() if topic_ids.get(topic, id_) != id_}
    if not other or not has_columns(connection, table, "_topic"):
        return
    if held := [topic for topic in sorted(other) if _holds(connection, table, topic)]:
        renames = [_rename(table, topic, f"{topic}@{other[topic]}").as_string(connection) for topic in held]
        raise Usage(
            f"table {table!r} holds rows of the earlier topic {', '.join(map(repr, held))}, which was deleted: their "
            "offsets look newer than those of the new records, and upsert would drop these",
            f"{'; '.join(renames)}; then set the positions again",
        )


def _holds(connection: Connection, table: str, topic: str) -> bool:
    query = sql.SQL("SELECT EXISTS (SELECT FROM {} WHERE _topic OPERATOR(pg_catalog.=) {})")
    with translated(f"read table {table!r}"):
        found = connection.execute(query.format(table_name(table), sql.Literal(topic))).fetchone()
    return bool(found and found[0])


def _rename(table: str, topic: str, earlier: str) -> sql.Composed:
    return sql.SQL(_RENAME).format(table_name(table), sql.Literal(earlier), sql.Literal(topic))
