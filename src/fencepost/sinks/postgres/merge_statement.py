"""The one statement that brings staged rows into the table: of each key the winner, in the order of the keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from psycopg import sql

from fencepost.model import Merge, Mode, Span
from fencepost.sinks.postgres.columns import TOMBSTONE, Column
from fencepost.sinks.postgres.connection import table_name

STAGE = "pg_temp.fencepost_staged"  # a temporary table of the session's own
WINNERS = "pg_temp.fencepost_winners"  # of a transaction's own
PLACE, NUMBER = ("_topic", "_partition"), ("_offset", "_n")  # where a row came from, as rows.py makes it


@dataclass(frozen=True)
class MergeStatement:
    """`t` is the table's row, `s` the staged one."""

    table: str
    columns: Sequence[Column]  # of the table, as far as they are given
    merge: Merge
    source: sql.Composable | None = None  # where the staged rows are; None: in the session's temporary table

    def make_stage(self) -> sql.Composed:
        """With the table's own types and collations, so that equal here is equal there."""
        mark = sql.SQL(", false AS {}").format(sql.Identifier(TOMBSTONE.name)) if self.merge.deletes else sql.SQL("")
        return sql.SQL("CREATE TEMPORARY TABLE IF NOT EXISTS {} AS SELECT {}{} FROM {} WITH NO DATA").format(
            table_name(STAGE), _list(self._names()), mark, table_name(self.table)
        )

    def keep_winners(self) -> sql.Composed:
        """Until the transaction ends: parts of them can be merged by the thousand, without sorting all each time."""
        made = "CREATE TEMPORARY TABLE {0} ON COMMIT DROP AS {1}; CREATE INDEX ON {0} (_offset); ANALYZE {0}"
        return sql.SQL(made).format(table_name(WINNERS), self._winners())

    def text(self, only: Span | None = None) -> sql.Composed:
        """`only`: of the winners that were kept those that came of these offsets."""
        winners = self._winners()
        if only:
            winners = sql.SQL("SELECT * FROM {} WHERE {} ORDER BY {}").format(
                table_name(WINNERS), offsets_in(only), _list(self.merge.key)
            )
        return sql.SQL("MERGE INTO {} AS t USING ({}) AS s ON {} {}").format(
            table_name(self.table), winners, same(self.merge.key), sql.SQL(" ").join(self._actions())
        )

    def _names(self) -> list[str]:
        return [column.name for column in self.columns]

    @property
    def _provenance(self) -> bool:
        return {*PLACE, *NUMBER} <= set(self._names())

    def _winners(self) -> sql.Composed:
        first = self.merge.mode is Mode.DEDUPE
        order: list[sql.Composable] = [sql.Identifier(name) for name in self.merge.key]
        if self.merge.order_by:
            order.append(sql.SQL("{} DESC NULLS LAST").format(sql.Identifier(self.merge.order_by)))
        arrival: Sequence[str] = ("ctid",)
        if self._provenance:  # of several partitions, as if they came one after the other
            arrival = PLACE + NUMBER if self.source else NUMBER
        order += [sql.SQL("{}" if first else "{} DESC").format(sql.Identifier(name)) for name in arrival]
        return sql.SQL("SELECT DISTINCT ON ({}) * FROM {} ORDER BY {}").format(
            _list(self.merge.key), self.source or table_name(STAGE), sql.SQL(", ").join(order)
        )

    def _actions(self) -> Iterable[sql.Composable]:
        mark = sql.SQL("{} IS TRUE").format(sql.Identifier("s", TOMBSTONE.name))  # a row that knows no event has none
        if self.merge.deletes:
            yield sql.SQL("WHEN MATCHED AND {} AND {} THEN DELETE").format(mark, self._may_replace())
        if self.merge.mode is Mode.UPSERT:
            yield sql.SQL("WHEN MATCHED AND {} THEN {}").format(self._may_replace(), self._update())
        there = sql.SQL(" AND NOT ({})").format(mark) if self.merge.deletes else sql.SQL("")
        yield sql.SQL("WHEN NOT MATCHED{} THEN INSERT ({}) VALUES ({})").format(
            there, _list(self._names()), _list(self._names(), "s")
        )

    def _update(self) -> sql.Composable:
        others = [name for name in self._names() if name not in self.merge.key]
        if not others:
            return sql.SQL("DO NOTHING")
        return sql.SQL("UPDATE SET {}").format(
            sql.SQL(", ").join(
                sql.SQL("{} = {}").format(sql.Identifier(name), sql.Identifier("s", name)) for name in others
            )
        )

    def _may_replace(self) -> sql.Composable:
        """The table's row is not known to be newer. The same event again may: its transform may be another now."""
        newer = []
        if self.merge.order_by:
            there, here = (sql.Identifier(side, self.merge.order_by) for side in "ts")
            newer.append(
                sql.SQL("{0} OPERATOR(pg_catalog.>) {1} OR {0} IS NOT NULL AND {1} IS NULL").format(there, here)
            )
            if self._provenance:  # a tie, told in the same way whoever comes first
                tie = sql.SQL("({0} OPERATOR(pg_catalog.=) {1} OR {0} IS NULL AND {1} IS NULL)").format(there, here)
                newer.append(sql.SQL("{} AND {}").format(tie, _higher(PLACE + NUMBER)))
        elif self._provenance:
            newer.append(sql.SQL("{} AND {}").format(same(PLACE), _higher(NUMBER)))
        if not newer:
            return sql.SQL("TRUE")
        return sql.SQL("({}) IS NOT TRUE").format(sql.SQL(" OR ").join(newer))


def _list(names: Iterable[str], *side: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(*side, name) for name in names)


def same(names: Iterable[str]) -> sql.Composed:
    """Both rows have the same there."""
    return sql.SQL(" AND ").join(
        sql.SQL("{} OPERATOR(pg_catalog.=) {}").format(sql.Identifier("t", name), sql.Identifier("s", name))
        for name in names
    )


def offsets_in(span: Span) -> sql.Composed:
    """Rows that came of these offsets."""
    return sql.SQL("_offset OPERATOR(pg_catalog.>=) {} AND _offset OPERATOR(pg_catalog.<) {}").format(
        sql.Literal(span.start), sql.Literal(span.end)
    )


def _higher(names: Sequence[str]) -> sql.Composed:
    return sql.SQL("({}) OPERATOR(pg_catalog.>) ({})").format(_list(names, "t"), _list(names, "s"))
