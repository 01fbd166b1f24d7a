"""The audit: journal against log, the log by itself, log against sink; each hop is blamed for its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Protocol

from fencepost.audit.engines.engine import Engine
from fencepost.audit.engines.relations import (
    NAMED,
    origins,
    put_nothing_dead,
    put_ranges,
    put_uncounted,
    says_where,
    zoned,
)
from fencepost.audit.findings import Audit, Hop
from fencepost.audit.journal import Journal, read_journals
from fencepost.audit.journal_to_log import check_log, compare_log, doubled_in_log
from fencepost.audit.keyed import BY_KEY, make_expected
from fencepost.audit.log_to_sink import compare_sides
from fencepost.audit.question import PLACES, Question, Ranges, by_id
from fencepost.audit.request import AuditRequest, EngineChoice, of_pipeline, what_landed
from fencepost.audit.scope import Doubt, Scope, committed_ends, drained, find_scope
from fencepost.audit.spans import breaks, earlier_topics
from fencepost.errors import FencepostError, Usage
from fencepost.guarantee import Anomaly
from fencepost.kafka.client import Cluster
from fencepost.kafka.errors import AuthenticationFailed
from fencepost.machine.counting import count
from fencepost.model import Mode, Span
from fencepost.sinks.auditing import (
    ComparesKeys,
    ForgetsCommits,
    LandedRecords,
    LandedRows,
    ListsCommits,
    Relation,
)
from fencepost.sinks.kind import require_able
from fencepost.spec import Declared, PipelineSpec, SinkSpec, spec_of

OWN_KEYS = (
    "only the stream's own code says which event of a key has its row; a pipeline file of the same name, source, sink "
    "and transform (--spec) lets it be run again"
)
ROWS_PER_SPAN = "spans without gaps, and the number of rows that they say were written"


class Loader(Protocol):
    """Makes relations out of topics and sinks, for its engine."""

    @property
    def engine(self) -> Engine: ...

    def topics(
        self,
        name: str,
        topics: Sequence[str],
        ranges: Ranges | None,
        *,
        committed: bool = True,
        id_: str = "",
        origin: str = "",
    ) -> None: ...

    def rows(self, name: str, relation: Relation) -> None: ...

    def expected(self, topics: Sequence[str], ranges: Ranges, condition: str) -> None: ...

    def outputs(self, spec: PipelineSpec, ranges: Ranges, in_doubt: Doubt) -> None: ...


def audit(what: AuditRequest | Declared, timeout: float | None = None) -> Audit:
    """Compare a pipeline's log and sink up to its position, or what the request says.

    `timeout`: seconds to let the pipeline drain first. Raises Usage and AuthenticationFailed; any other failure leaves
    the verdict open, and never passes for a good one.
    """
    request = what if isinstance(what, AuditRequest) else of_pipeline(spec_of(what))
    try:
        waited = timeout is None or drained(request, timeout)
        found = audit_scope(request, find_scope(request))
    except (Usage, AuthenticationFailed):
        raise
    except FencepostError as error:
        return Audit(request.guarantee, "", [], undecided=str(error))
    if not waited:
        found.undecided = f"the pipeline did not drain within {timeout:g} s"
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
        from fencepost.audit.engines.duckdb import open_duck
        from fencepost.audit.engines.relations import PythonLoader

        with open_duck() as duck:
            yield PythonLoader(duck, request.kafka, payload=request.payload is not None)
    else:
        from fencepost.audit.engines.spark import SparkLoader, open_spark

        with open_spark(", ".join(request.topics), request.spark) as spark:
            yield SparkLoader(spark, request.kafka, headers=True, source=request.source)


class _Auditor:
    def __init__(self, request: AuditRequest, scope: Scope, loader: Loader, journal: Journal | None) -> None:
        self._request = request
        self._scope = scope
        self._loader = loader
        self._journal = journal
        self._engine = loader.engine
        self._id = "value" if journal and journal.ids_are_values else ""
        self._landed: LandedRows | LandedRecords | None = None
        self._placed = False  # do the rows, or records, know where they came from?

    def hops(self) -> Iterator[Hop]:
        put_ranges(self._engine, self._scope.ranges)
        put_nothing_dead(self._engine)
        yield self._first_hop(self._journal) if self._journal is not None else self._log_by_itself()
        if self._request.sink is not None:
            yield self._last_hop(self._request.sink)

    def _first_hop(self, journal: Journal) -> Hop:
        """What the sender was told; and what its events' headers say."""
        self._engine.put("journal", journal.table())
        self._loader.topics("log", self._request.topics, self._scope.whole, id_=self._id)
        missing = Anomaly.UNDECIDED if self._scope.forgets else Anomaly.LOST_BEFORE_LOG
        hop = compare_log(self._engine, self._request.most, lambda: self._read_raw(None), missing)
        hop.facts["ignored_lines"] = journal.ignored
        by_itself = self._checked_log()
        hop.blame(by_itself)
        hop.facts |= by_itself.facts
        return hop

    def _log_by_itself(self) -> Hop:
        """Nobody declared what the sender promised: what it repeated or reordered is told, and not judged."""
        hop = self._checked_log()
        doubled_in_log(self._engine, hop, self._request.most)
        hop.only_say(Anomaly.DOUBLED_IN_LOG, Anomaly.REORDERED_IN_LOG)
        return hop

    def _checked_log(self) -> Hop:
        self._loader.topics("log", self._request.topics, self._scope.ranges, id_=self._id)
        return check_log(self._engine, self._request.most)

    def _read_raw(self, ranges: Ranges | None) -> None:
        if ranges is not None:  # what a sink claims may lie outside of the topic
            known = self._scope.ranges
            ranges = {at: span for at, span in ranges.items() if at in known}
        self._loader.topics("raw", self._request.topics, ranges, committed=False, id_=self._id)

    def _last_hop(self, sink: SinkSpec) -> Hop:
        self._landed = what_landed(self._request)
        self._placed = self._load_sink()
        hop = self._compared(sink, provenance=self._placed)
        if isinstance(self._landed, LandedRecords):  # a table has no order, a topic has
            hop.blame(check_log(self._engine, self._request.most, "landed", Anomaly.REORDERED_IN_SINK))
        hop.add(breaks(self._scope.spans, self._scope.positions))
        hop.facts["waiting"] = sum(self._scope.waiting(at) for at in self._scope.ranges)
        hop.not_checked += self._left_out()
        return hop

    def _compared(self, sink: SinkSpec, provenance: bool) -> Hop:
        if self._request.own_stream and self._request.mode is not Mode.APPEND:
            return Hop("log to sink", BY_KEY, undecided=OWN_KEYS)
        if self._by_id() and self._request.merged is not None:
            return Hop("log to sink", BY_KEY, undecided="rows of one key are compared by provenance: remove --id")
        if self._by_id():
            return self._by_ids()
        if not provenance:
            return self._rows_per_span(sink.options.name)
        if self._request.merged is not None:
            return self._of_keys(self._request.merged)
        return compare_sides(self._engine, self._question())

    def _by_ids(self) -> Hop:
        """Events that have none are not compared: then nothing can be said about the whole."""
        (log,), (sink,) = (
            self._engine.rows(f"SELECT count(*) - count(id) AS nameless FROM {relation}")
            for relation in ("log", "sink")
        )
        question = self._question()
        if log["nameless"]:  # it may be one of those of which a row came
            question = replace(question, nowhere=Anomaly.UNDECIDED)
        hop = compare_sides(self._engine, question)
        if log["nameless"] or sink["nameless"]:
            hop.undecided = (
                f"without an id: {count(log['nameless'], 'record')} of the log, {sink['nameless']:,} of the sink"
            )
        return hop

    def _of_keys(self, spec: PipelineSpec) -> Hop:
        """Upsert and dedupe of a pipeline: its transform is run again, to see which event of each key has the row."""
        merge = spec.sink.options.merge
        if merge is None:
            raise Usage(f"pipeline {spec.name!r} does not merge rows", "remove --mode")
        kind = require_able(spec.sink.kind, ComparesKeys, spec.sink.format, "compare keys")
        order = kind.key_order(spec.job, merge)
        if order.reason:
            return Hop("log to sink", BY_KEY, undecided=order.reason)
        self._engine.keep("found", "SELECT topic, part, pos, id, n, payload, zone FROM sink")
        (rows,) = self._engine.rows("SELECT count(*) AS rows FROM found WHERE zone = 'older'")  # all of it is read now
        try:
            self._loader.outputs(
                spec, self._carried(), self._scope.in_doubt()
            )  # up to an end that lies behind every row
            put_uncounted(self._engine, self._scope.uncounted)
            aside = make_expected(self._engine, merge, order.bytewise or len(spec.source.origins) == 1)
        except FencepostError as error:
            return Hop("log to sink", BY_KEY, undecided=f"which events must have a row is not known: {error}")
        forgotten = self._scope.compacted or (rows["rows"] > 0 and self._scope.forgets)
        forgotten |= self._forgotten  # of dedupe the first one of a key may be among them
        forgotten |= bool(earlier_topics(self._scope.spans))  # a row of a deleted topic stays where it came first
        plain = merge.mode is Mode.UPSERT and not merge.order_by  # the newest event of a key is not forgotten first
        question = replace(
            self._question(made=True),
            missing=Anomaly.UNDECIDED if forgotten and not plain else Anomaly.LOST_BEFORE_SINK,
            nowhere=Anomaly.UNDECIDED if self._scope.compacted else Anomaly.PHANTOM,
        )
        hop = compare_sides(self._engine, question)
        hop.checked = BY_KEY
        if aside:
            hop.facts["unsettled_keys"] = aside
        return hop

    def _carried(self) -> Ranges:
        """From where each partition began to be carried, up to its end now."""
        begun = self._scope.carried
        with Cluster(self._request.kafka) as cluster:
            ends = committed_ends(cluster, list(self._scope.ends))
        first = {at: max(start, begun.get(at, start)) for at, start in self._scope.first.items()}
        return {at: Span(first[at], max(first[at], end)) for at, end in ends.items() if at in first}

    def _left_out(self) -> Iterator[str]:
        """What of the log and the sink is not compared though it could be, or not in full."""
        request = self._request
        if request.since is not None or request.until is not None:
            yield "records outside of --from and --to"
        if self._forgotten:
            yield "what came before the first commit that the sink has on record"

    @property
    def _forgotten(self) -> bool:
        """Are the pipeline's first commits not on record any more?"""
        sink, job = self._request.sink, self._request.job
        if self._request.pipeline is None or sink is None or job is None:
            return False
        return isinstance(sink.kind, ForgetsCommits) and sink.kind.forgets(job)

    def _by_id(self) -> bool:
        records = isinstance(self._landed, LandedRecords)
        return bool(self._request.id_column) or (records and not self._placed)

    def _counts_rows(self, sink: SinkSpec | None) -> bool:
        """Does somebody say how many rows came of a span? Else a filtered event looks like one that was lost."""
        return sink is not None and isinstance(sink.kind, ListsCommits) and not self._by_id()

    def _question(self, made: bool = False) -> Question:
        """`made`: `expected` is there already, and each of its events must have a row."""
        request = self._request
        narrowed = made or self._make_expected()
        unknown = request.filters and not self._counts_rows(request.sink)
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
            earlier=() if self._by_id() else earlier_topics(self._scope.spans),
            missing=Anomaly.UNDECIDED if unknown else Anomaly.LOST_BEFORE_SINK,
        )

    def _make_expected(self) -> bool:
        """`expected`: the events that must have a row. Says whether others of the log are superseded by them.

        Without a pipeline a key is Kafka's, and lives in one partition.
        """
        mode, request = self._request.mode, self._request
        named = "id IS NOT NULL" if self._by_id() else "TRUE"
        if request.expect:
            self._loader.expected(request.topics, self._scope.ranges, request.expect)
            return False
        if mode is Mode.APPEND:
            self._engine.view("expected", f"SELECT * FROM log WHERE {named}")
            return False
        which = "DESC" if mode is Mode.UPSERT else "ASC"
        alive = "NOT tombstone" if request.deletes else "TRUE"
        self._engine.view(
            "expected",
            "SELECT topic, part, pos, id, key, intact, payload FROM (SELECT *, row_number() OVER "
            f"(PARTITION BY topic, part, key ORDER BY pos {which}) AS place FROM log) AS ordered "
            f"WHERE place = 1 AND {alive} AND {named}",
        )
        return True

    def _load_sink(self) -> bool:
        """`landed`, `sink` and `dead`. Says whether the rows know where they came from."""
        if isinstance(self._landed, LandedRecords):
            return self._load_records(self._landed)
        if self._landed is None:
            return False
        self._loader.rows("landed", self._landed.rows)
        by_id_ = f"SELECT topic, part, pos, id, n, payload, {NAMED} FROM landed"
        self._engine.view("sink", by_id_ if self._request.id_column else zoned("landed"))
        if self._landed.dead is not None:
            self._loader.rows("dead", self._landed.dead)
        return self._landed.provenance

    def _load_records(self, records: LandedRecords) -> bool:
        """Without a pipeline nobody knows which of several that read the log wrote a record."""
        origin = records.origin if self._request.pipeline and not self._request.id_column else ""
        self._loader.topics("landed", records.topics, None, id_=self._id, origin=origin)
        placed = bool(origin) and says_where(self._engine, "landed")
        if records.dead is not None:
            self._loader.topics("letters", [records.dead], None, id_=self._id, origin=origin)
            self._engine.view("dead", origins("letters") if placed else "SELECT topic, part, pos, id FROM letters")
        if placed:
            self._engine.view("found_at", origins("landed"))
        by_id_ = f"SELECT topic, part, pos, id, 0 AS n, payload, {NAMED} FROM landed"
        self._engine.view("sink", zoned("found_at") if placed else by_id_)
        return placed

    def _rows_per_span(self, name: str) -> Hop:
        """Rows that do not know where they came from can only be counted, against what commits say that they wrote."""
        hop = Hop("log to sink", ROWS_PER_SPAN)
        if self._request.mode is not Mode.APPEND:
            hop.undecided = f"rows without provenance: with {self._request.mode} their number says nothing"
            return hop
        hop.not_checked = ["the rows have no provenance, so only their number was compared"]
        (found,) = self._engine.rows("SELECT count(*) AS rows FROM landed")
        said = [landed.rows for landed in self._scope.spans]
        if not said or None in said:
            raise Usage(
                f"the rows of {name!r} have no provenance, and nothing says how many were written",
                "compare them by an id: --id COLUMN; or keep the column _from in the transform",
            )
        hop.landed, hop.expected = int(found["rows"]), sum(count for count in said if count is not None)
        hop.totals[Anomaly.LOST_BEFORE_SINK] = max(hop.expected - hop.landed, 0)
        hop.totals[Anomaly.DOUBLED_IN_SINK] = max(hop.landed - hop.expected, 0)
        return hop
