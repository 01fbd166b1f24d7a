"""Where the Python engine's rows go: the sink of the pipeline file, opened and checked once per run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from itertools import repeat
from typing import Any

from confluent_kafka import Message

from fencepost.engines.python.columns import EventRows
from fencepost.engines.python.offset_store import Messages
from fencepost.engines.python.sink_offset_store import RowMaker, Store
from fencepost.errors import Poison, Usage
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import topic_id_and_partitions
from fencepost.model import TopicPartition
from fencepost.rules.findings import require
from fencepost.rules.sinks import Capabilities, merge_findings, require_key, require_letters, sink_findings
from fencepost.rules.topics import loop_findings
from fencepost.sinks.kafka import KafkaSettings, KafkaStore
from fencepost.sinks.kafka.capabilities import CAPABILITIES as KAFKA
from fencepost.sinks.kafka.outputs import ORIGIN, Record, require_columns
from fencepost.sinks.postgres import PostgresSettings, PostgresStore, dead_letters
from fencepost.sinks.postgres.capabilities import CAPABILITIES as POSTGRES
from fencepost.sinks.postgres.table import fit_columns, located, make_table, require_temporary
from fencepost.spec import KafkaOptions, OnError, PipelineSpec, PostgresOptions


@dataclass(frozen=True)
class Target:
    """A sink that is ready."""

    open_store: Callable[[], Store]
    make_rows: RowMaker
    mirrored: bool  # do the group's offsets only show the positions? Else they are the ledger


def capabilities(spec: PipelineSpec) -> Capabilities:
    return KAFKA if isinstance(spec.sink.options, KafkaOptions) else POSTGRES


def open_target(spec: PipelineSpec, rows: EventRows) -> Target:
    """Make what is missing, and compare what is there. Raises Usage where it does not fit the rows."""
    options = spec.sink.options
    merge, provenance = options.merge, rows.shape.provenance
    require_key(merge, rows.columns.names, provenance)
    require(spec.guarantee, [*sink_findings(capabilities(spec)), *merge_findings(merge, provenance)])
    if spec.on_error is OnError.DEAD_LETTER:
        require_letters(capabilities(spec), provenance)
    if isinstance(options, KafkaOptions):
        return _topics(spec, options, rows)
    return _table(spec, options, rows)


def _topics(spec: PipelineSpec, options: KafkaOptions, rows: EventRows) -> Target:
    require(spec.guarantee, loop_findings(spec.source.origins, options.targets))
    require_columns(rows.columns.names)
    with Cluster(spec.kafka) as cluster:
        for topic in options.targets:
            topic_id_and_partitions(cluster, topic)  # raises where it does not exist
    settings = KafkaSettings(spec.kafka, spec.name, options.targets, ledger_group=options.group)
    if rows.shape.arrow is None:  # as they are: no need to make columns of them
        records = partial(_as_they_are, origins=options.provenance)
        return Target(lambda: KafkaStore(settings, records=records), _messages, mirrored=False)
    return Target(lambda: KafkaStore(settings), partial(_without_letters, rows), mirrored=False)


def _without_letters(
    rows: EventRows, place: TopicPartition, messages: Messages, aside: Mapping[int, str]
) -> Iterator[Any]:
    """There is no place for dead letters beside a topic, so nobody is told to use them."""
    try:
        yield from rows(place, messages, aside)
    except Poison as poison:
        poison.remedy = "mend the transform: take the value as it is, without source.schema, and parse it there"
        raise


def _messages(_place: TopicPartition, messages: Messages, _hooks: Mapping[int, str]) -> Messages:
    return messages


def _as_they_are(messages: Messages, origins: bool) -> Iterator[Record]:
    parts = (map(Message.value, messages), map(Message.key, messages), repeat(None))
    headers: Iterator[Any] = map(Message.headers, messages)
    return zip(*parts, map(_origin, messages, headers) if origins else headers, repeat(None), strict=False)


def _origin(message: Message, headers: list[Any] | None) -> list[Any]:
    origin = f"{message.topic()}/{message.partition()}/{message.offset()}/0".encode()
    return [(ORIGIN, origin), *headers] if headers else [(ORIGIN, origin)]


def _table(spec: PipelineSpec, options: PostgresOptions, rows: EventRows) -> Target:
    if options.dsn is None:
        raise Usage("the pipeline does not say where PostgreSQL is", "start one with `fencepost up`")
    plain = PostgresSettings(
        options.dsn,
        spec.name,
        options.table,
        (),
        options.ledger_schema,
        True,
        options.merge,
        spec.guarantee.value,
        options.ledger_retention,
    )
    with closing(PostgresStore(plain)) as store:
        require_temporary(store.connection(), options.key)
        table = located(store.connection(), options.table)
        columns, exists = fit_columns(store.connection(), table, rows.columns, options.key)
        if not exists:
            make_table(store.connection(), table, columns, options.key)
        if spec.on_error is OnError.DEAD_LETTER:
            make_table(store.connection(), dead_letters.table_for(table), dead_letters.COLUMNS)
    settings = replace(plain, table=table, columns=columns)
    return Target(lambda: PostgresStore(settings), rows, mirrored=True)
