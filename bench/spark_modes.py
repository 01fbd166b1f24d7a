"""Kafka through Spark into PostgreSQL by key: upsert and dedupe against the usual staging table and ON CONFLICT.

Every key comes twice: half of the records make a row, the others meet one. Every round runs each contender once over
the same topic, in an order that rotates. A ratio is the median over the rounds of (the other's time / ours): more than
1 means that ours is faster. `*_over_append` is our time over that of append: what the key costs; `staged_over_direct`
that of a transform that shuffles over that of one that does not.

The recipes differ in how rows get into the staging table: by Spark's JDBC writer, by psycopg's COPY row by row in
foreachPartition, or by our own COPY of Arrow batches, which leaves the merge alone to be compared.

    python bench/spark_modes.py [--quick] [--format json] [--records N] [--rounds N]
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any
from uuid import uuid4

import psycopg
from psycopg.conninfo import conninfo_to_dict
from pyspark.sql import DataFrame, Row

sys.path.insert(0, str(Path(__file__).parents[1]))
from bench.spark_postgres import Bench, UnfencedWriter, _password, opened
from bench.support.comparing import PARTITIONS, arguments, interleaved, note, ratio, show

from fencepost.engines.spark.batches import BatchCarrier
from fencepost.engines.spark.stream import BatchStream
from fencepost.engines.spark.transform import Transform
from fencepost.model import Mode, TopicPartition
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.columns import columns_for
from fencepost.sinks.postgres.kind import KIND
from fencepost.sinks.postgres.table import make_table
from fencepost.spec import PipelineSpec

SQL = (
    "SELECT {hint} partition + {partitions} * (offset % {keys}) AS id, CAST(value AS string) AS body, {place} "
    "FROM events"
)
CONFLICT = {
    Mode.UPSERT: 'DO UPDATE SET body = excluded.body, "offset" = excluded."offset"',
    Mode.DEDUPE: "DO NOTHING",
}


class Modes:
    """The contenders: seconds over the whole topic."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._keys = bench.records // PARTITIONS // 2
        self._batch = bench.records // 4  # the keys of the first two batches come again in the others

    def ours(self, mode: Mode, shuffled: bool = False) -> float:
        """`shuffled`: a plan that mixes partitions, so that the rows go through a stage."""
        spec = self._spec(mode, "_from", "/*+ REPARTITION(4) */" if shuffled else "")
        transform = self._bench.transform(spec, self._batch)
        settings = replace(self._fresh(f"bench_{mode}", transform, spec.job.options.key), pipeline=spec.name)
        settings = replace(settings, merge=spec.sink.options.merge)
        with closing(PostgresStore(settings)) as store:
            first = {TopicPartition(self._bench.topic, number): 0 for number in range(PARTITIONS)}
            tenure = store.take_over(spec.name, uuid4(), first, {})
            stream = BatchStream(
                BatchCarrier(self._bench.spark, transform, spec.guarantee, KIND, settings, tenure),
                transform.source,
                lambda _: None,
            )
            start = perf_counter()
            stream.carry(once=True, every="0 seconds")
            seconds = perf_counter() - start
        self._require(settings.table, self._bench.records if mode is Mode.APPEND else self._keys * PARTITIONS)
        return seconds

    def recipe(self, mode: Mode, stage: Callable[[DataFrame, PostgresSettings, Transform], object]) -> float:
        """foreachBatch: everything into a staging table, then one INSERT ... ON CONFLICT on the driver."""
        transform = self._bench.transform(self._spec(Mode.APPEND, "offset"), self._batch)
        target = self._fresh("bench_target", transform, ("id",))
        staging = self._fresh("bench_staging", transform, ())
        order = 'id, "offset" DESC' if mode is Mode.UPSERT else 'id, "offset"'
        merge = (
            f'INSERT INTO {target.table} SELECT DISTINCT ON (id) id, body, "offset" FROM {staging.table} '
            f"ORDER BY {order} ON CONFLICT (id) {CONFLICT[mode]}"
        )

        def write(rows: DataFrame) -> None:
            stage(rows, staging, transform)
            with closing(psycopg.connect(self._bench.stack.dsn)) as database:
                database.execute(merge)
                database.execute(f"TRUNCATE {staging.table}")
                database.commit()

        seconds = sum(self._bench._stream(transform, write))
        self._require(target.table, self._keys * PARTITIONS)
        return seconds

    def by_jdbc(self, rows: DataFrame, staging: PostgresSettings, _transform: Transform) -> None:
        where = conninfo_to_dict(self._bench.stack.dsn)
        url = f"jdbc:postgresql://{where['host']}:{where['port']}/{where['dbname']}?sslmode=disable"
        properties = {"user": str(where["user"]), "driver": "org.postgresql.Driver", "password": _password(where)}
        rows.write.jdbc(url, staging.table, "append", properties)

    def by_psycopg(self, rows: DataFrame, staging: PostgresSettings, _transform: Transform) -> None:
        dsn, statement = staging.dsn, f'COPY {staging.table} (id, body, "offset") FROM STDIN'

        def copy_rows(part: Iterable[Row]) -> None:
            with closing(psycopg.connect(dsn)) as database:
                with database.cursor().copy(statement.encode()) as copy:
                    for row in part:
                        copy.write_row(row)
                database.commit()

        rows.foreachPartition(copy_rows)

    def by_arrow(self, rows: DataFrame, staging: PostgresSettings, transform: Transform) -> None:
        rows.mapInArrow(UnfencedWriter(staging, transform), "rows long").collect()  # type: ignore[arg-type]

    def _spec(self, mode: Mode, place: str, hint: str = "") -> PipelineSpec:
        sql = SQL.format(partitions=PARTITIONS, keys=self._keys, place=place, hint=hint)
        options: dict[str, Any] = {"table": f"bench_{mode}", "dsn": self._bench.stack.dsn, "mode": mode}
        if mode is not Mode.APPEND:
            options["key"] = ["id"]
        return PipelineSpec.model_validate(
            {
                "name": f"bench-{mode}-{uuid4().hex[:8]}",
                "guarantee": "exactly-once",
                "kafka": {"bootstrap.servers": self._bench.stack.bootstrap_servers},
                "source": {"topic": self._bench.topic},
                "transform": {"sql": sql},
                "sink": {"format": "postgres", "options": options},
            }
        )

    def _fresh(self, table: str, transform: Transform, key: tuple[str, ...]) -> PostgresSettings:
        settings = PostgresSettings(self._bench.stack.dsn, table, table, columns_for(transform.columns))
        with closing(PostgresStore(settings)) as store:
            store.connection().execute(f"DROP TABLE IF EXISTS {table}".encode())
            make_table(store.connection(), table, settings.columns, key)
            store.connection().execute("CHECKPOINT")  # nobody pays for what the one before left behind
        return settings

    def _require(self, table: str, rows: int) -> None:
        landed = self._bench.count(table)
        assert landed == rows, (table, landed, rows)


def compare(bench: Bench, rounds: int) -> dict[str, float]:
    modes = Modes(bench)
    contenders: dict[str, Callable[[], float]] = {mode.value: (lambda mode=mode: modes.ours(mode)) for mode in Mode}  # type: ignore[misc]
    contenders["staged"] = lambda: modes.ours(Mode.APPEND, shuffled=True)
    for mode in (Mode.UPSERT, Mode.DEDUPE):
        for how in (modes.by_jdbc, modes.by_psycopg, modes.by_arrow):
            name = f"staged_{how.__name__}_over_{mode}"
            contenders[name] = lambda mode=mode, how=how: modes.recipe(mode, how)  # type: ignore[misc]
    found = interleaved(contenders, rounds)
    ratios = {"staged_over_direct": ratio(found, "staged", "append")}
    for mode in (Mode.UPSERT, Mode.DEDUPE):
        ratios[f"{mode}_over_append"] = ratio(found, mode.value, "append")
        ratios |= {name: ratio(found, name, mode.value) for name in found if name.endswith(f"_over_{mode}")}
    return ratios


def main() -> None:
    given = arguments(__doc__, "40,000 records, two rounds").parse_args()
    records, rounds = (40_000, 2) if given.quick else (given.records, given.rounds)
    result: dict[str, Any] = {"records": records, "rounds": rounds}
    with opened(records) as bench:
        note(f"{records:,} records of about 120 bytes in {PARTITIONS} partitions, every key twice")
        result["ratios"] = compare(bench, rounds)
    show(result, given.format)


if __name__ == "__main__":
    main()
