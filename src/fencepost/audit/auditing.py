"""The audit: journal against log, the log by itself, log against sink; each hop is blamed for its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from psycopg import sql

from fencepost.audit.engine import Engine
from fencepost.audit.findings import Audit, Hop
from fencepost.audit.first_hop import check_log, compare_log, doubled_in_log
from fencepost.audit.hop import PLACES, Question, Ranges, by_id, compare_sides
from fencepost.audit.journal import Journal, read_journals
from fencepost.audit.loading import put_nothing_dead, put_ranges, zoned
from fencepost.audit.request import AuditRequest, EngineChoice, SinkMode
from fencepost.audit.scope import Scope, drained, find_scope
from fencepost.audit.spans import breaks
from fencepost.cluster.failures import NotLetIn
from fencepost.errors import FencepostError, Usage
from fencepost.guarantee import Anomaly
from fencepost.sinks.postgres import dead
from fencepost.sinks.postgres.reading import exists, has_columns, pages, reader
from fencepost.sinks.postgres.session import table_name, translated
from fencepost.sinks.postgres.table import located

PROVENANCE = ("_topic", "_partition", "_offset", "_n")
_ONE_OF_A_KEY = """
SELECT * FROM (
    SELECT c.*, s.pos IS NOT NULL AS here,
        max(CASE WHEN s.pos IS NULL THEN 0 ELSE 1 END) OVER (PARTITION BY c.key) AS landed,
        row_number() OVER (PARTITION BY c.key ORDER BY c.tombstone DESC, c.topic, c.part) AS number
    FROM chosen c LEFT JOIN (SELECT DISTINCT topic, part, pos FROM sink WHERE zone = 'in') s
    ON c.topic = s.topic AND c.part = s.part AND c.pos = s.pos
) AS each_topics WHERE here OR (landed = 0 AND number = 1 AND {alive})
"""  # each topic's event of a key may have the row: the one that was committed last has, and only the sink knows which
ROWS_PER_SPAN = "spans without gaps, and the number of rows that they say were written"


class Loader(Protocol):
    """Makes relations out of topics and tables, for its engine."""

    @property
    def engine(self) -> Engine: ...

    def topics(
        self, name: str, topics: Sequence[str], ranges: Ranges | None, *, committed: bool = True, id_: str = ""
    ) -> None: ...

    def table(self, name: str, dsn: str, query: str, pages: int = 0, /) -> None: ...

    def expected(self, topics: Sequence[str], ranges: Ranges, condition: str) -> None: ...


def audit(request: AuditRequest, patience: float | None = None) -> Audit:
    """Raises Usage and NotLetIn; whatever else goes wrong leaves the verdict open, and never passes for a good one."""
    try:
        waited = patience is None or drained(request, patience)
        found = audit_scope(request, find_scope(request))
    except (Usage, NotLetIn):
        raise
    except FencepostError as error:
        return Audit(request.guarantee, "", [], undecided=str(error))
    if not waited:
        found.undecided = f"the pipeline did not drain within {patience:g} s"
    return found


def audit_scope(request: AuditRequest, scope: Scope) -> Audit:
    """One audit of what is in scope, on the engine that fits its size."""
    with _loader(request, request.chosen(scope.offsets)) as loader:
        return audit_with(request, scope, loader)


def audit_with(request: AuditRequest, scope: Scope, loader: Loader) -> Audit:
    journal = read_journals(request.journals) if request.journals else None
    hops = list(_Auditor(request, scope, loader, journal).hops())
    nowhere = "" if scope.positions or not request.pipeline else f"no position is stored for {request.pipeline!r}"
    return Audit(request.guarantee, loader.engine.name, hops, scope.partitions(), nowhere)


@contextmanager
def _loader(request: AuditRequest, choice: EngineChoice) -> Iterator[Loader]:
    if choice is EngineChoice.PYTHON:
        from fencepost.audit.duck import open_duck
        from fencepost.audit.loading import PythonLoader

        with open_duck() as duck:
            yield PythonLoader(duck, request.kafka, payload=request.payload is not None)
    else:
        from fencepost.audit.on_spark import SparkLoader, open_spark

        headers = bool(request.journals or request.sink_topic or request.id_column)
        with open_spark(", ".join(request.topics), request.spark) as spark:
            yield SparkLoader(spark, request.kafka, headers, request.source)


class _Auditor:
    def __init__(self, request: AuditRequest, scope: Scope, loader: Loader, journal: Journal | None) -> None:
        self._request = request
        self._scope = scope
        self._loader = loader
        self._journal = journal
        self._engine = loader.engine
        self._id = "value" if journal and journal.ids_are_values else ""

    def hops(self) -> Iterator[Hop]:
        put_ranges(self._engine, self._scope.ranges)
        put_nothing_dead(self._engine)
        if self._journal is not None:
            self._engine.put("journal", self._journal.table())
            self._loader.topics("log", self._request.topics, self._scope.whole, id_=self._id)
            missing = Anomaly.UNDECIDED if self._scope.forgets else Anomaly.LOST_BEFORE_LOG
            yield compare_log(self._engine, self._request.most, lambda: self._read_raw(None), missing)
        self._loader.topics("log", self._request.topics, self._scope.ranges, id_=self._id)
        if self._reads_headers():
            yield self._log_by_itself()
        if self._request.table is not None or self._request.sink_topic is not None:
            yield self._last_hop()

    def _reads_headers(self) -> bool:
        return self._engine.name == "python" or bool(self._request.journals)

    def _log_by_itself(self) -> Hop:
        hop = check_log(self._engine, self._request.most)
        if self._journal is None:
            doubled_in_log(self._engine, hop, self._request.most)
        return hop

    def _read_raw(self, ranges: Ranges | None) -> None:
        if ranges is not None:  # what a sink claims may lie outside of the topic
            known = self._scope.ranges
            ranges = {at: span for at, span in ranges.items() if at in known}
        self._loader.topics("raw", self._request.topics, ranges, committed=False, id_=self._id)

    def _last_hop(self) -> Hop:
        provenance = self._load_sink()
        if not provenance and not self._by_id():
            hop = self._rows_per_span()
        else:
            hop = compare_sides(self._engine, self._question())
        if self._request.sink_topic is not None:  # a table has no order, a topic has
            hop.blame(check_log(self._engine, self._request.most, "landed", Anomaly.REORDERED_IN_SINK))
        hop.add(breaks(self._scope.spans, self._scope.positions))
        hop.facts["waiting"] = sum(self._scope.waiting(at) for at in self._scope.ranges)
        return hop

    def _by_id(self) -> bool:
        return bool(self._request.id_column or self._request.sink_topic)

    def _question(self) -> Question:
        request = self._request
        narrowed = self._make_expected()
        return Question(
            by_id(self._engine) if self._by_id() else PLACES,
            self._read_raw,
            () if self._by_id() or narrowed else self._scope.spans,  # of its rows a commit may have kept some only
            self._scope.ranges,
            compacted=self._scope.compacted,
            nothing_is_filtered=bool(request.expect),
            unexpected=Anomaly.DOUBLED_IN_SINK if narrowed else None,
            payload=request.payload is not None,
            most=request.most,
        )

    def _make_expected(self) -> bool:
        """`expected`: the events that must have a row. Says whether others of the log are superseded by them."""
        mode, request = self._request.mode, self._request
        if request.expect:
            self._loader.expected(request.topics, self._scope.ranges, request.expect)
            return False
        if mode is SinkMode.APPEND:
            self._engine.view("expected", "SELECT * FROM log")
            return False
        which = "DESC" if mode is SinkMode.UPSERT else "ASC"
        alive = "NOT tombstone" if request.deletes else "TRUE"
        self._engine.keep(
            "chosen",
            "SELECT * FROM (SELECT *, row_number() OVER "
            f"(PARTITION BY topic, part, key ORDER BY pos {which}) AS place FROM log) AS ordered WHERE place = 1",
        )
        one = f"SELECT * FROM chosen WHERE {alive}" if request.keys_apart else _ONE_OF_A_KEY.format(alive=alive)
        self._engine.view("expected", f"SELECT topic, part, pos, id, key, intact, payload FROM ({one}) AS one")
        return True

    def _load_sink(self) -> bool:
        """`sink` and `dead`. Says whether the rows know where they came from."""
        request = self._request
        if request.sink_topic is not None:
            self._loader.topics("landed", [request.sink_topic], None, id_=self._id)
            self._engine.view("sink", "SELECT topic, part, pos, id, 0 AS n, payload, 'in' AS zone FROM landed")
            return False
        table, dsn = request.table or "", request.dsn or ""
        with reader(dsn) as connection:
            if not exists(connection, *table.split(".")):
                raise Usage(f"there is no table {table!r}", "has the pipeline run?")
            place = located(connection, table)
            provenance = has_columns(connection, table, *PROVENANCE)
            for column in filter(None, (request.id_column, request.payload)):
                if not has_columns(connection, table, column):
                    raise Usage(f"table {table!r} has no column {column!r}")
            query, size = _rows(request, place, provenance).as_string(connection), pages(connection, place)
            aside = exists(connection, *dead.table_for(place).split("."))
            dead_query = _dead(dead.table_for(place)).as_string(connection)
        self._loader.table("landed", dsn, query, size)
        self._engine.view("sink", zoned("landed"))
        if aside:
            self._loader.table("dead", dsn, dead_query)
        return provenance

    def _rows_per_span(self) -> Hop:
        """Rows that do not know where they came from can only be counted, against what commits say that they wrote."""
        hop = Hop("log to sink", ROWS_PER_SPAN)
        with reader(self._request.dsn or "") as connection, translated("count the rows"):
            count = sql.SQL("SELECT pg_catalog.count(*) FROM {}").format(table_name(self._request.table or ""))
            (rows,) = connection.execute(count).fetchone() or (0,)
        said = [landed.rows for landed in self._scope.spans]
        if not said or None in said:
            raise Usage(
                f"the rows of {self._request.table!r} do not know where they came from, and nothing says how many "
                "were written",
                "compare them by an id: --id COLUMN; or carry the column _from through the transform",
            )
        hop.landed, hop.expected = int(rows), sum(count for count in said if count is not None)
        hop.totals[Anomaly.LOST_BEFORE_SINK] = max(hop.expected - hop.landed, 0)
        hop.totals[Anomaly.DOUBLED_IN_SINK] = max(hop.landed - hop.expected, 0)
        return hop


def _rows(request: AuditRequest, table: str, provenance: bool) -> sql.Composed:
    nowhere = "NULL::pg_catalog.text AS topic, NULL::integer AS part, NULL::bigint AS pos"
    known = "_topic::pg_catalog.text AS topic, _partition::integer AS part, _offset::bigint AS pos"
    place, number = (known, "_n::integer") if provenance else (nowhere, "0")
    id_: sql.Composable = sql.SQL("NULL")
    payload: sql.Composable = sql.SQL("NULL")
    if request.id_column:
        place, number, id_ = nowhere, "0", sql.Identifier(request.id_column)
    if request.payload:
        payload = sql.SQL("pg_catalog.md5({})").format(sql.Identifier(request.payload))
    text = "SELECT {place}, {id}::pg_catalog.text AS id, {n} AS n, {payload}::pg_catalog.text AS payload FROM {table}"
    return sql.SQL(text).format(
        place=sql.SQL(place), id=id_, n=sql.SQL(number), payload=payload, table=table_name(table)
    )


def _dead(table: str) -> sql.Composed:
    columns = sql.SQL('topic, partition AS part, "offset" AS pos, NULL::pg_catalog.text AS id')
    return sql.SQL("SELECT {} FROM {}").format(columns, table_name(table))
