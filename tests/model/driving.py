"""The real thing: a case on real Kafka and PostgreSQL, through the library, and what stands there behind each run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any
from uuid import uuid4

import psycopg
import yaml
from confluent_kafka import Producer
from psycopg import sql
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.rows import dict_row

from fencepost.admin.positions import carry_out, propose
from fencepost.delivery import nobody
from fencepost.errors import FencepostError, Poison, Refused, Usage
from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from fencepost.model import Batch, Step, TopicPartition
from fencepost.run.loop import Summary
from fencepost.run.pipeline import Pipeline
from fencepost.spec import PipelineSpec, load
from model.case import Case, Change, Record, Slot, Turn
from model.seen import Place, Seen, SpanSeen
from model.tables import create_table
from spark.flows import SPARK

ANY_TIME = {"message.timestamp.before.max.ms": str(2**63 - 1), "message.timestamp.after.max.ms": str(2**63 - 1)}
# A member that was left over is soon missed, and the end of a partition is soon seen.
QUICK = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "1000", "fetch.max.wait.ms": "10"}


class _Lenient(Loader):
    """Years that Python does not know are texts: a row that should not be there must be shown, too."""

    def load(self, data: Buffer) -> datetime | date | str:
        text = bytes(data).decode()
        try:
            return date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
        except ValueError:
            return text


def lenient(connection: psycopg.Connection[Any]) -> None:
    for kind in ("date", "timestamptz"):
        connection.adapters.register_loader(kind, _Lenient)


class Died(FencepostError):
    """What a crash is here: it goes through everything, and nothing is done behind it."""


class Field:
    """One stack for many cases: their topics are made once, and each case begins where the last one ended."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.folder = folder
        self.dsn = stack.dsn
        self.kafka = {"bootstrap.servers": stack.bootstrap_servers, **QUICK}
        self.producer = Producer({"bootstrap.servers": stack.bootstrap_servers, "linger.ms": 5})
        self.connection = psycopg.connect(stack.dsn, autocommit=True, options="-c timezone=UTC")
        lenient(self.connection)
        self._name = f"model_{uuid4().hex[:6]}"
        self._topics: dict[str, dict[int, int]] = {}  # where each partition ends

    def topics(self, partitions: Sequence[int]) -> list[str]:
        return [self._topic(f"{self._name}_{number}_{count}", count) for number, count in enumerate(partitions)]

    def _topic(self, name: str, partitions: int) -> str:
        if name not in self._topics:
            create_topic(Cluster(self.kafka), TopicRequest(name, partitions, config=ANY_TIME))
            self._topics[name] = dict.fromkeys(range(partitions), 0)
        return name

    def ends(self, topic: str) -> dict[int, int]:
        return dict(self._topics[topic])

    def send(self, topic: str, record: Record, told: dict[int, int], number: int) -> None:
        """`told` gets the offset, by the record's number."""

        def heard(error: object, message: Any) -> None:
            assert error is None, f"{record!r}: {error}"
            told[number] = message.offset()

        where = {"partition": record.slot[1], "timestamp": record.time or 0}  # 0: now
        self.producer.produce(topic, record.value, record.key, on_delivery=heard, **where)  # type: ignore[arg-type]
        self.producer.poll(0)

    def moved(self, topic: str, partition: int, end: int) -> None:
        self._topics[topic][partition] = max(end, self._topics[topic][partition])

    @contextmanager
    def play(self, case: Case) -> Iterator[Play]:
        play = Play(self, case)
        try:
            yield play
        finally:
            play.remove()


class Play:
    """One case."""

    def __init__(self, field: Field, case: Case) -> None:
        self._field, self._case = field, case
        self.table = f"m_{uuid4().hex[:10]}"
        self.topics = field.topics(case.partitions)
        ends = {topic: field.ends(topic) for topic in self.topics}
        self.starts: dict[Slot, int] = {slot: ends[self.topics[slot[0]]][slot[1]] for slot in case.slots}
        self.path = field.folder / f"{self.table}.yml"
        self.path.write_text(yaml.safe_dump(self._declared(ends), sort_keys=False, allow_unicode=True))
        self.summary: Summary | None = None
        create_table(field.connection, self.table, case)
        self._spans = 0

    def _declared(self, starts: Mapping[str, Mapping[int, int]]) -> dict[str, Any]:
        declared = self._case.declared(self.topics, self.table)
        if "dead_letters" not in PipelineSpec.model_fields:
            declared.pop("dead_letters", None)
        declared["source"]["start"] = {topic: dict(offsets) for topic, offsets in starts.items()}
        declared["sink"]["options"]["dsn"] = self._field.dsn
        if self._case.batch in (3, 20):
            declared["batch"]["small"] = 0  # by tasks, where Spark carries it; the others by the driver
        return declared | {"kafka": self._field.kafka} | ({"spark": SPARK} if self._case.engine == "spark" else {})

    @cached_property
    def spec(self) -> PipelineSpec:
        return load(self.path)

    def at(self, slot: Slot) -> TopicPartition:
        return TopicPartition(self.topics[slot[0]], slot[1])

    def slot(self, topic: str, partition: int) -> Slot:
        return self.topics.index(topic), partition

    # -- what happens

    def produce(self, records: Sequence[Record]) -> dict[Place, Record]:
        told: dict[int, int] = {}
        for number, record in enumerate(records):
            self._field.send(self.topics[record.slot[0]], record, told, number)
        assert self._field.producer.flush(60) == 0
        for number, record in enumerate(records):
            self._field.moved(*self.at(record.slot), told[number] + 1)
        return {(record.slot, told[number]): record for number, record in enumerate(records)}

    def set_back(self, by: int) -> dict[Slot, int]:
        """Where the positions stand then. Nothing happens where none is stored."""
        stored = self.positions()
        back = {slot: max(at - by, self.starts[slot]) for slot, at in stored.items()}
        if back:
            to: dict[str, dict[int, int]] = {}
            for slot, at in back.items():
                to.setdefault(self.topics[slot[0]], {})[slot[1]] = at
            carry_out(self.spec, propose(self.spec, to))
        return back

    def run(self, turn: Turn) -> Seen:
        watch = Watch(self, turn)
        ended, told = "well", ""
        named: tuple[Place, ...] = ()
        self.summary = None
        try:
            see = watch.see if self._case.engine == "python" else nobody  # which would have to cross to the workers
            self.summary = Pipeline(self.path, see=see).run(once=True)
        except Died:
            ended = "crashed"
        except (Usage, Refused) as error:
            ended, told, named = "refused", f"{type(error).__name__}: {error}", self._named(error)
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what the run ended with)
            ended, told = type(error).__name__, str(error)
        if watch.changed:
            self._mend(watch.changed)
        return Seen(
            ended, told, named, self.positions(), self.dead(), watch.crashed, watch.changed, tuple(self._new_spans())
        )

    def _named(self, error: FencepostError) -> tuple[Place, ...]:
        if not isinstance(error, Poison):
            return ()
        topic, _, partition = error.partition.rpartition("/")
        return tuple((self.slot(topic, int(partition)), offset) for offset, _ in error.records)

    def change(self, change: Change) -> None:
        moved = {
            Change.RENAME: "ALTER TABLE {table} RENAME COLUMN a TO elsewhere",
            Change.DROP: "ALTER TABLE {table} DROP COLUMN a",
            Change.GONE: "ALTER TABLE {table} RENAME TO {gone}",
        }
        self.sql(moved[change])

    def _mend(self, change: Change) -> None:
        back = {
            Change.RENAME: "ALTER TABLE {table} RENAME COLUMN elsewhere TO a",
            Change.DROP: f"ALTER TABLE {{table}} ADD COLUMN a {self._case.kind('a').postgres}",
            Change.GONE: "ALTER TABLE {gone} RENAME TO {table}",
        }
        self.sql(back[change])

    # -- what there is

    def positions(self) -> dict[Slot, int]:
        if not self.exists("fencepost.positions"):
            return {}
        query = "SELECT topic, partition, position FROM fencepost.positions WHERE pipeline = %s"
        return {self.slot(row["topic"], row["partition"]): row["position"] for row in self.sql(query, self.table)}

    def rows(self) -> list[dict[str, Any]]:
        return self.sql("SELECT * FROM {table}") if self.exists(self.table) else []

    def dead(self) -> Counter[Place]:
        return Counter((slot, offset) for slot, offset, _, _ in self.letters())

    def letters(self) -> list[tuple[Slot, int, bytes | None, bytes | None]]:
        if not self.exists(f"{self.table}_dead"):
            return []
        found = self.sql('SELECT topic, partition, "offset", key, value FROM {dead}')
        return [(self.slot(row["topic"], row["partition"]), row["offset"], row["key"], row["value"]) for row in found]

    def _new_spans(self) -> Iterator[SpanSeen]:
        if not self.exists("fencepost.spans"):
            return
        query = (
            "SELECT id, topic, partition, start_offset, end_offset FROM fencepost.spans "
            "WHERE pipeline = %s AND id > %s ORDER BY id"
        )
        for row in self.sql(query, self.table, self._spans):
            self._spans = row["id"]
            slot = self.slot(row["topic"], row["partition"])
            yield SpanSeen(slot, row["start_offset"], row["end_offset"])

    def exists(self, table: str) -> bool:
        return bool(self.sql("SELECT to_regclass(%s) AS there", table)[0]["there"])

    def sql(self, text: str, *values: object) -> list[dict[str, Any]]:
        names = {"table": self.table, "dead": f"{self.table}_dead", "gone": f"{self.table}_gone"}
        statement = sql.SQL(text).format(**{name: sql.Identifier(table) for name, table in names.items()})
        with self._field.connection.cursor(row_factory=dict_row) as cursor:
            cursor.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def remove(self) -> None:
        for table in ("table", "dead", "gone"):
            self.sql(f"DROP TABLE IF EXISTS {{{table}}}")


class Watch:
    """Sees every step of a run; at the one that was drawn it kills the run, or changes the table."""

    def __init__(self, play: Play, turn: Turn) -> None:
        self._play, self._turn = play, turn
        self._steps: Counter[str] = Counter()
        self._lock = Lock()
        self.crashed: tuple[str, Slot, int, int] | None = None
        self.changed: Change | None = None

    def see(self, step: Step, batch: Batch[Any]) -> None:
        with self._lock:
            self._steps[step] += 1
            number = self._steps[step]
        if self._turn.change and (step, number) == (Step.STARTED, self._turn.change[1]):
            self._play.change(self._turn.change[0])  # waits for transactions that have the table: they must get past us
            self.changed = self._turn.change[0]
        crash = self._turn.crash
        if crash and (step, number) == (crash.step, crash.number):
            place, span = batch.only_span()
            self.crashed = (step.value, self._play.slot(*place), span.start, span.end)
            raise Died(f"behind {step}")
