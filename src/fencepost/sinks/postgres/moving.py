"""From the stage into the target: whole, by count, and only what Spark returned; then upsert and dedupe as ever."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from psycopg import sql

from fencepost.errors import Poison, Refused, Unreachable
from fencepost.machine.counting import count
from fencepost.model import Batch, Landed, Span, TopicPartition
from fencepost.sinks.postgres import dead_letters
from fencepost.sinks.postgres.binary_copy import Copier
from fencepost.sinks.postgres.connection import Connection, table_name, translated
from fencepost.sinks.postgres.constraints import check_deferred
from fencepost.sinks.postgres.merge_statement import offsets_in
from fencepost.sinks.postgres.merging import TRIES, Merging
from fencepost.sinks.postgres.poison import begin_again, find_staged_poison
from fencepost.sinks.postgres.repeated import is_unique, not_there, with_dedupe_remedy
from fencepost.sinks.postgres.stage import ATTEMPT, Attempt, Counts, Stage

Part = tuple[TopicPartition, Span]


@dataclass(frozen=True)
class Staged:
    """The rows of a batch of several spans, in a stage that its tasks have filled."""

    stage: Stage
    attempts: tuple[Attempt, ...]  # those whose results Spark returned, one of each task
    letters: Mapping[TopicPartition, pa.RecordBatch]  # records that were dead-lettered
    repeats: bool = False  # at least once: an earlier attempt may have moved the same rows

    @property
    def rows(self) -> int:
        return sum(attempt.rows for attempt in self.attempts)

    def shares(self, spans: Mapping[TopicPartition, Span]) -> Mapping[TopicPartition, Landed]:
        """What came of each span. Rows that do not know are the first one's, so that the sum is right."""
        counts: Counts = sum((attempt.counts() for attempt in self.attempts), Counter())
        dead_ones = {at: letters.num_rows for at, letters in self.letters.items()}
        known = {at: counts.pop(at, 0) for at in sorted(spans)}
        first = min(spans)
        known[first] += counts.total()
        return {at: Landed(rows, dead_ones.get(at, 0)) for at, rows in known.items()}

    @property
    def numbered(self) -> bool:
        """Are the numbers of each event's rows right? Where no partition came to several tasks, and each by offset."""
        places = [place for attempt in self.attempts for *place, _ in attempt.origins]
        single = all(attempt.in_order and len(attempt.origins) == 1 for attempt in self.attempts if attempt.rows)
        return single and all(places.count(place) == 1 for place in places)

    def require_whole(self, connection: Connection) -> None:
        """Unreachable unless each attempt is there as it told. An unlogged table is empty after a crash."""
        stage, numbers = self.stage, [attempt.number for attempt in self.attempts]
        said = sql.SQL("SELECT task, attempt, rows FROM {} WHERE attempt = ANY(%s)").format(stage.done)
        mark = sql.Identifier(ATTEMPT.name)
        held = sql.SQL("SELECT pg_catalog.count(*) FROM {} WHERE {} = ANY(%s)").format(stage.rows, mark)
        with stage.being_there(), translated("count the rows of the stage"):
            done = {tuple(row) for row in connection.execute(said, (numbers,)).fetchall()}
            (rows,) = connection.execute(held, (numbers,)).fetchone() or (0,)
        told = {(attempt.task, attempt.number, attempt.rows) for attempt in self.attempts}
        if done != told or rows != self.rows:
            raise Unreachable(
                f"the stage holds {count(rows, 'row')} of {count(len(done), 'task')}, and {count(len(told), 'task')} "
                f"put {self.rows:,} there",
                "PostgreSQL lost them: unlogged tables are emptied in a crash",
            )


def move(connection: Connection, batch: Batch[Staged]) -> Landed:
    """As the first thing in the caller's transaction. Raises Unreachable, and Refused or Poison for bad rows.

    Rows that are in the table already count as moved.
    """
    staged = batch.rows
    staged.require_whole(connection)
    try:
        if staged.rows:
            _insert_all(connection, staged)
    except Refused as refusal:
        raise _named(connection, batch, refusal) from refusal.__cause__
    for letters in staged.letters.values():
        Copier(connection, dead_letters.table_for(staged.stage.table), dead_letters.COLUMNS).copy(letters)
    return Landed(staged.rows, sum(letters.num_rows for letters in staged.letters.values()))


def _insert_all(connection: Connection, staged: Staged) -> None:
    """Where the table takes a row only once, and an earlier attempt may have moved it: what is not there yet."""
    try:
        _insert(connection, staged)
    except Refused as refusal:
        if not (staged.repeats and staged.stage.merge is None and is_unique(refusal)):
            raise
        if not staged.stage.provenance:
            raise with_dedupe_remedy(refusal) from refusal.__cause__
        begin_again(connection)
        _insert(connection, staged, again=True)


def _insert(connection: Connection, staged: Staged, only: Part | None = None, again: bool = False) -> None:
    """`only`: what came of this part. `again`: what is not in the table yet."""
    stage, source = staged.stage, _source(staged, only)
    if again:
        source = not_there(stage.table, stage.columns, source)
    with translated(f"move rows into {stage.table!r}"):
        if stage.merge:
            # while bad rows are looked for, the transaction must not be begun again
            Merging(stage.table, stage.columns, stage.merge, source).merge(connection, 1 if only else TRIES)
            return
        names = sql.SQL(", ").join(sql.Identifier(column.name) for column in stage.columns)
        connection.execute(
            sql.SQL("INSERT INTO {table} ({names}) SELECT {names} FROM {source}").format(
                table=table_name(stage.table), names=names, source=source
            )
        )
        check_deferred(connection, trying=only is not None)


# Rows of one event that came from several tasks are numbered here, in whatever order they lie: that takes a sort.
_NUMBER = "(pg_catalog.row_number() OVER (PARTITION BY _topic, _partition, _offset ORDER BY ctid) - 1)::integer AS _n"
_PART = " AND _topic OPERATOR(pg_catalog.=) {} AND _partition OPERATOR(pg_catalog.=) {} AND {}"


def _source(staged: Staged, only: Part | None) -> sql.Composed:
    """The rows that count, with their numbers; `only`: those that came of this part."""
    stage = staged.stage
    made = {"_n": sql.SQL(_NUMBER)} if stage.provenance and not staged.numbered else {}
    columns = [made.get(column.name, sql.Identifier(column.name)) for column in stage.carried]
    part: sql.Composable = sql.SQL("")
    if only:
        (topic, partition), span = only
        part = sql.SQL(_PART).format(sql.Literal(topic), sql.Literal(partition), offsets_in(span))
    return sql.SQL("(SELECT {}, ctid FROM {} WHERE {} = ANY({}){}) AS staged").format(
        sql.SQL(", ").join(columns),
        stage.rows,
        sql.Identifier(ATTEMPT.name),
        sql.Literal([attempt.number for attempt in staged.attempts]),
        part,
    )


def _named(connection: Connection, batch: Batch[Staged], refusal: Refused) -> Refused:
    """The refusal with the offsets of the records that caused it, where the rows know where they came from."""
    staged = batch.rows
    if not refusal.about_values or not staged.stage.provenance:
        return refusal
    with translated("look for the records that were refused"):
        begin_again(connection)
    for partition, span in sorted(batch.spans.items()):

        def attempt(offsets: Span, partition: TopicPartition = partition) -> None:
            _insert(connection, staged, (partition, offsets), staged.repeats and staged.stage.merge is None)

        found = find_staged_poison(connection, partition, span, attempt, refusal, staged.stage.most_bad)
        if isinstance(found, Poison):
            return found
    return refusal
