"""The log against the sink: sums per bucket first, then row by row where they differ.

Events are matched by where they came from (topic, partition, offset: an exploded event has several rows, numbered) or
by their id. The caller has made the relations: `log`, the committed records; `expected`, those of them that must have
a row; `sink`, the rows; `dead`, the records that were dead-lettered.
"""

from __future__ import annotations

import pyarrow as pa

from fencepost.audit.engines.engine import BUCKET_BITS, Engine, Row, bucket, table
from fencepost.audit.findings import Finding, Hop
from fencepost.audit.hop_findings import HopFindings
from fencepost.audit.question import Question
from fencepost.audit.spans import LandedSpan, SpanCount
from fencepost.audit.sums import Bucket, Sums, rows_of, suspects
from fencepost.guarantee import Anomaly
from fencepost.machine.counting import count as counted
from fencepost.model import Span, TopicPartition


def compare_sides(engine: Engine, question: Question) -> Hop:
    return _Comparison(engine, question).run()


class _Comparison:
    def __init__(self, engine: Engine, question: Question) -> None:
        self._engine = engine
        self._asked = question
        self._hop = Hop("log to sink", question.keying.checked)
        self._findings = HopFindings(engine, self._hop, question.most)
        self._columns = question.keying.columns
        self._keys = ", ".join(question.keying.columns)
        self._hurt: dict[int, SpanCount] = {}  # the spans that meet a bucket that differs
        self._blamed: dict[int, int] = {}  # rows of such a span that are findings already
        self._open = 0  # events whose rows may be of an earlier topic

    def run(self) -> Hop:
        expected, _ = self._sums("expected", "0", "'in'")
        found, aside = self._sums("sink", "n", "zone")
        self._hop.landed = rows_of(found.values())
        self._hop.facts = {"read": rows_of(expected.values()), "filtered": 0, "dead": 0, **aside}
        if nowhere := aside.get("unplaced"):
            self._hop.not_checked.append(f"{counted(nowhere, 'row')} of which nothing says where it came from")
        differing = suspects(expected, found)
        self._engine.put("earlier", table(RANGE, [(*at, span.start, span.end) for at, span in self._asked.earlier]))
        if differing:
            self._look_closer(differing)
        wrong = self._hop.totals
        surplus = wrong[Anomaly.DOUBLED_IN_SINK] + wrong[Anomaly.PHANTOM] + wrong[Anomaly.ABORTED_READ] + self._open
        self._hop.expected = self._hop.landed - surplus + wrong[Anomaly.LOST_BEFORE_SINK]
        if self._asked.earlier:
            self._say_of_earlier()
        return self._hop

    def _say_of_earlier(self) -> None:
        """A row at an offset that an earlier topic had too may stand for that one's event."""
        topics = ", ".join(sorted({repr(at.topic) for at, _ in self._asked.earlier}))
        if self._open:
            self._hop.undecided = (
                f"{counted(self._open, 'event')} with more rows than there should be, or others; they may be of an "
                f"earlier topic {topics}, whose offsets were the same"
            )
        elif not self._asked.payload:
            (count,) = self._engine.rows(
                f"SELECT count(*) AS rows FROM sink s JOIN earlier e ON {_within('s')} WHERE s.zone = 'in'"
            )
            if count["rows"]:
                self._hop.not_checked.append(
                    f"of which topic {topics} {counted(count['rows'], 'row')} came, the one that there is now or not: "
                    "an earlier one of that name had rows at the same offsets"
                )

    def _sums(self, relation: str, number: str, zone: str) -> tuple[dict[Bucket, Sums], dict[str, int]]:
        """The sums of the rows that are compared, and how many were left out, by why."""
        keying = self._asked.keying
        content = ("payload",) if self._asked.payload else ()
        first, second = self._engine.hashes(self._columns[-1], *content)
        topic, part, number_of_bucket = keying.bucket
        answer = self._engine.rows(
            f"SELECT {topic} AS b_topic, {part} AS b_part, {number_of_bucket} AS b_bucket, {zone} AS b_zone, "
            f"count(*) FILTER (WHERE {number} = 0) AS times, sum({keying.total}) FILTER (WHERE {number} = 0) AS total, "
            f"sum({first}) FILTER (WHERE {number} = 0) AS h1, sum({second}) FILTER (WHERE {number} = 0) AS h2, "
            f"count(*) FILTER (WHERE {number} <> 0) AS more, count(*) AS rows FROM {relation} GROUP BY 1, 2, 3, 4"
        )
        sums: dict[Bucket, Sums] = {}
        aside: dict[str, int] = {}
        for row in answer:
            if row["b_zone"] == "in":
                counts = (row["times"], row["total"], row["h1"], row["h2"], row["more"])
                at = Bucket(row["b_topic"], row["b_part"], row["b_bucket"])
                sums[at] = Sums(*(int(count or 0) for count in counts))
            else:
                aside[row["b_zone"]] = aside.get(row["b_zone"], 0) + row["rows"]
        return sums, aside

    def _look_closer(self, differing: list[Bucket]) -> None:
        self._make_mismatches(differing)
        doubled = "logged > 0 AND times > logged + before"
        counts = {"times": "times", "expected": "logged", "n": "n"}
        self._findings.add(Anomaly.DOUBLED_IN_SINK, "mismatch", doubled, events="times - logged - before", **counts)
        changed, note = "changed AND before = 0", "another payload than in the log"
        self._findings.add(Anomaly.CORRUPTED, "mismatch", changed, note, **counts)
        self._leave_open("mismatch", "times - logged", "logged > 0 AND times > logged")
        self._leave_open("mismatch", "1", "changed AND logged > 0 AND times <= logged")
        self._count_spans(differing)
        self._extra()
        self._more_than_written()
        self._missing()

    def _leave_open(self, relation: str, events: str, where: str) -> None:
        """Count those that earlier topics explain."""
        if self._asked.earlier:
            (count,) = self._engine.rows(
                f"SELECT coalesce(sum(least({events}, before)), 0) AS events FROM {relation} WHERE {where}"
            )
            self._open += int(count["events"])

    def _make_mismatches(self, differing: list[Bucket]) -> None:
        """`mismatch`: every key that is not there as often as it should be, or with another payload."""
        self._engine.put("suspects", table(_BUCKET, differing))
        payload = "min(payload)" if self._asked.payload else "NULL"
        one = "min(topic) AS {0}_topic, min(part) AS {0}_part, min(pos) AS {0}_pos, min(id) AS {0}_id"
        self._engine.view(
            "expected_here",
            f"SELECT {self._keys}, {one.format('l')}, {payload} AS l_payload, count(*) AS logged "
            f"FROM expected {self._in_suspects(differing)} GROUP BY {self._keys}",
        )
        self._engine.view(
            "found_here",
            f"SELECT {self._keys}, n, {one.format('s')}, {payload} AS s_payload, count(*) AS times "
            f"FROM sink {self._in_suspects(differing)} AND zone = 'in' GROUP BY {self._keys}, n",
        )
        differs = "l.l_payload <> s.s_payload" if self._asked.payload else "FALSE"
        self._engine.keep(
            "unequal",
            "SELECT coalesce(l_topic, s_topic) AS topic, coalesce(l_part, s_part) AS part, "
            "coalesce(l_pos, s_pos) AS pos, coalesce(l_id, s_id) AS id, coalesce(n, 0) AS n, "
            f"coalesce(logged, 0) AS logged, coalesce(times, 0) AS times, coalesce({differs}, FALSE) AS changed "
            f"FROM expected_here l FULL OUTER JOIN found_here s ON {self._same('l', 's')} "
            f"WHERE logged IS NULL OR times IS NULL OR times <> logged OR {differs}",
        )
        columns = "u.topic, u.part, u.pos, u.id, u.n, u.logged, u.times, u.changed"
        counted = f"SELECT {columns}, count(e.topic) AS before FROM unequal u LEFT JOIN earlier e ON {_within('u')}"
        plain = "SELECT *, 0 AS before FROM unequal"
        self._engine.keep("mismatch", f"{counted} GROUP BY {columns}" if self._asked.earlier else plain)

    def _in_suspects(self, differing: list[Bucket]) -> str:
        """Only the rows of these buckets; said of their offsets too, which a reader may use to skip files or pages."""
        topic, part, number = self._asked.keying.bucket
        numbers = [at.bucket for at in differing]
        first, end = min(numbers) << BUCKET_BITS, (max(numbers) + 1) << BUCKET_BITS
        between = "TRUE" if self._keys == "id" else f"pos >= {first} AND pos < {end}"
        return f"JOIN suspects b ON b.b_topic = {topic} AND b.b_part = {part} AND b.b_bucket = {number} WHERE {between}"

    def _same(self, left: str, right: str) -> str:
        return " AND ".join(f"{left}.{column} = {right}.{column}" for column in self._columns)

    def _extra(self) -> None:
        """Rows without a record that is expected: of an event that is not, of an aborted transaction, of nowhere."""
        extent = self._engine.rows(
            "SELECT topic, part, min(pos) AS first, max(pos) AS last FROM mismatch WHERE logged = 0 "
            "GROUP BY topic, part"
        )
        if not extent:
            return
        places = self._keys != "id"
        self._asked.read_raw({_at(row): Span(row["first"], row["last"] + 1) for row in extent} if places else None)
        place = "min(topic) AS of_topic, min(part) AS of_part, max(pos) AS at"
        once = f"(SELECT {self._keys}, {place} FROM {{}} GROUP BY {self._keys})"
        self._engine.keep(
            "extra",
            "SELECT m.*, CASE WHEN c.at IS NOT NULL THEN 'committed' WHEN r.at IS NULL THEN 'nowhere' "
            "WHEN g.until IS NOT NULL AND r.at >= g.until THEN 'ahead' ELSE 'aborted' END AS state FROM mismatch m "
            f"LEFT JOIN {once.format('log')} c ON {self._same('m', 'c')} "
            f"LEFT JOIN {once.format('raw')} r ON {self._same('m', 'r')} "
            "LEFT JOIN ranges g ON g.topic = r.of_topic AND g.part = r.of_part WHERE m.logged = 0",
        )
        counts = {"events": "times - before", "times": "times", "expected": "0", "n": "n"}
        excluded = self._asked.unexpected or Anomaly.PHANTOM
        committed, note = "state = 'committed' AND times > before", "its event is not expected to have a row"
        self._findings.add(excluded, "extra", committed, note, **counts)
        aborted, note = "state = 'aborted' AND times > before", "a record of the log that is not committed"
        self._findings.add(Anomaly.ABORTED_READ, "extra", aborted, note, **counts)
        self._leave_open("extra", "times", "state <> 'ahead'")
        if self._asked.compacted and self._hurt:
            self._compacted(counts)
        else:
            self._findings.add(self._asked.nowhere, "extra", "state = 'nowhere' AND times > before", **counts)
            self._blamed = self._by_span(
                f"SELECT h.span, count(*) AS times FROM extra m JOIN hurt h ON {_inside('m')} GROUP BY h.span"
            )
        (ahead,) = self._engine.rows("SELECT coalesce(sum(times), 0) AS times FROM extra WHERE state = 'ahead'")
        if ahead["times"]:
            self._hop.facts["ahead"] = self._hop.facts.get("ahead", 0) + int(ahead["times"])
            self._hop.landed -= int(ahead["times"])

    def _compacted(self, counts: dict[str, str]) -> None:
        """Rows whose record is gone: compaction took it, unless there are more rows than their commit wrote."""
        self._engine.keep(
            "extra_in",
            f"SELECT m.*, h.span FROM extra m LEFT JOIN hurt h ON {_inside('m')} WHERE m.state = 'nowhere'",
        )
        gone = self._by_span("SELECT span, count(*) AS times FROM extra_in WHERE span IS NOT NULL GROUP BY span")
        surplus = {i: min(count.surplus, gone.get(i, 0)) for i, count in self._hurt.items()}
        self._put_named([i for i, more in surplus.items() if more and more == gone[i]])
        self._findings.add(Anomaly.PHANTOM, "extra_in", _UNEXPLAINED, **counts)
        for i, more in surplus.items():
            if 0 < more < gone[i]:
                self._hop.add([_long(self._hurt[i], more)], more)
        self._hop.facts["compacted"] = sum(gone.values()) - sum(surplus.values())

    def _more_than_written(self) -> None:
        """Rows that look like further outputs of an event, in spans whose commit did not write so many."""
        for i, count in self._hurt.items():
            more = count.surplus - self._blamed.get(i, 0)
            if count.whole and more > 0 and not self._asked.compacted:
                if self._met_before(count.landed):
                    self._open += more
                else:
                    self._hop.add([_long(count, more)], more)

    def _met_before(self, landed: LandedSpan) -> bool:
        """Has an earlier topic left rows among those of the span?"""
        here, span = landed.partition, landed.span
        return any(at == here and one.start < span.end and span.start < one.end for at, one in self._asked.earlier)

    def _missing(self) -> None:
        """Records without a row: dead, filtered or lost."""
        self._engine.keep(
            "missing",
            f"SELECT m.*, d.{self._columns[-1]} IS NOT NULL AS dead FROM mismatch m "
            f"LEFT JOIN (SELECT DISTINCT {self._keys} FROM dead) d ON {self._same('m', 'd')} WHERE m.times < m.logged",
        )
        (count,) = self._engine.rows(
            "SELECT coalesce(sum(CASE WHEN dead THEN 1 ELSE 0 END), 0) AS dead, "
            "coalesce(sum(CASE WHEN dead THEN 0 ELSE logged - times END), 0) AS missing FROM missing"
        )
        self._hop.facts["dead"] = int(count["dead"])
        if self._asked.nothing_is_filtered or not self._asked.spans:
            self._lost("missing", "NOT dead")
        else:
            self._ask_spans()
        lost = self._hop.totals[self._asked.missing]
        self._hop.facts["filtered"] = max(int(count["missing"]) - lost, 0)

    def _lost(self, relation: str, where: str) -> None:
        counts = {"events": "logged - times", "times": "times", "expected": "logged"}
        open_ = self._asked.missing is Anomaly.UNDECIDED
        note = "filtered, lost, or of a key whose row is another event's" if open_ else ""
        self._findings.add(self._asked.missing, relation, where, note, **counts)

    def _count_spans(self, differing: list[Bucket]) -> None:
        """How many rows are there of each span that meets a bucket that differs."""
        here = set(differing)
        hurt = [landed for landed in self._asked.spans if any(at in here for at in landed.buckets())]
        parts = [(i, *at, one.span.start, one.span.end) for i, one in enumerate(hurt) for at in one.buckets()]
        self._engine.put("hurt", table(_HURT, parts))
        rows = self._by_span(
            "SELECT span, count(*) AS times FROM (SELECT DISTINCT h.span, s.topic, s.part, s.pos, s.n FROM sink s "
            f"JOIN hurt h ON {_inside('s')}) AS one GROUP BY span"
        )
        self._hurt = {i: SpanCount(one, rows.get(i, 0), whole=self._covers(one)) for i, one in enumerate(hurt)}

    def _covers(self, landed: LandedSpan) -> bool:
        """Does what is compared hold the whole span?"""
        inside = self._asked.ranges.get(landed.partition)
        return inside is not None and inside.start <= landed.span.start and landed.span.end <= inside.end

    def _ask_spans(self) -> None:
        """Spans say how many rows their commit wrote: where fewer are there, some are lost."""
        self._engine.keep(
            "missing_in", f"SELECT m.*, h.span FROM missing m LEFT JOIN hurt h ON {_inside('m')} WHERE NOT m.dead"
        )
        gone = self._by_span("SELECT span, count(*) AS times FROM missing_in WHERE span IS NOT NULL GROUP BY span")
        lost = {i: count.lost(gone.get(i, 0)) for i, count in self._hurt.items()}
        self._put_named([i for i, fewer in lost.items() if fewer and fewer == gone.get(i, 0)])
        self._lost("missing_in", _UNEXPLAINED)
        for i, fewer in lost.items():
            if fewer and fewer != gone.get(i, 0):
                self._hop.add([_short(self._hurt[i], fewer)], fewer)

    def _put_named(self, spans: list[int]) -> None:
        """The spans whose events can all be named: as many are amiss as the commit's count says."""
        self._engine.put("named", table({"span": pa.int64()}, [(i,) for i in spans]))

    def _by_span(self, query: str) -> dict[int, int]:
        return {row["span"]: int(row["times"]) for row in self._engine.rows(query)}


_BUCKET = {"b_topic": pa.string(), "b_part": pa.int32(), "b_bucket": pa.int64()}
_HURT = {
    "span": pa.int64(),
    "topic": pa.string(),
    "part": pa.int32(),
    "bucket": pa.int64(),
    "first": pa.int64(),
    "until": pa.int64(),
}


RANGE = {"topic": pa.string(), "part": pa.int32(), "first": pa.int64(), "until": pa.int64()}

_UNEXPLAINED = "span IS NULL OR span IN (SELECT span FROM named)"


def _within(side: str) -> str:
    """The row lies where an earlier topic left some."""
    return f"e.topic = {side}.topic AND e.part = {side}.part AND {side}.pos >= e.first AND {side}.pos < e.until"


def _inside(side: str) -> str:
    """The row lies in the span: by bucket first, so that no row meets every span."""
    return (
        f"h.topic = {side}.topic AND h.part = {side}.part AND h.bucket = {bucket(f'{side}.pos')} "
        f"AND {side}.pos >= h.first AND {side}.pos < h.until"
    )


def _at(row: Row) -> TopicPartition:
    return TopicPartition(row["topic"], row["part"])


def _of_span(code: Anomaly, count: SpanCount, note: str, weight: int) -> Finding:
    """Where the commit's count says that something is wrong, and not with which of its records."""
    landed = count.landed
    said = note.format(landed.span)
    return Finding(
        code,
        None,
        *landed.partition,
        offset=landed.span.start,
        times=count.rows,
        expected=landed.rows or 0,
        note=said,
        weight=weight,
    )


def _short(count: SpanCount, fewer: int) -> Finding:
    note = "of the rows that the commit of {} wrote; which of its records they were is not known"
    return _of_span(Anomaly.LOST_BEFORE_SINK, count, note, fewer)


def _long(count: SpanCount, more: int) -> Finding:
    return _of_span(Anomaly.PHANTOM, count, "more rows than the commit of {} wrote", more)
