"""A pipeline of a user and a role with no more rights than the documentation gives them, over SASL_SSL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import yaml
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType  # type: ignore[attr-defined]
from psycopg.conninfo import make_conninfo

from cluster.secured import SecuredBroker
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack

PARTITIONS = 2


@dataclass
class SecuredFlow:
    """Topic, table, group, role and ledger of one name. The owner of the database makes what the role may only use."""

    broker: SecuredBroker
    stack: Stack
    folder: Path
    name: str = field(default_factory=lambda: f"guarded_{uuid4().hex[:10]}")
    secret: str = field(default_factory=lambda: f"canary-of-the-role-{uuid4().hex}")

    def __post_init__(self) -> None:
        create_topic(self.broker.administrator(), TopicRequest(self.name, PARTITIONS, 1))
        self.sql(f"CREATE ROLE {self.role} LOGIN PASSWORD '{self.secret}'")

    @property
    def target(self) -> str:
        """The topic that a pipeline into a topic writes to."""
        return f"{self.name}-out"

    @property
    def role(self) -> str:
        return f"{self.name}_role"

    @property
    def dsn(self) -> str:
        return make_conninfo(self.stack.dsn, user=self.role, password=self.secret)

    @property
    def secrets(self) -> tuple[str, str]:
        """What must be found nowhere."""
        return self.broker.password, self.secret

    def allow_reading(self) -> None:
        """Kafka's rights, as docs/security.md has them."""
        self.broker.allow(ResourceType.TOPIC, self.name, AclOperation.READ, AclOperation.DESCRIBE_CONFIGS)
        self.broker.allow(ResourceType.GROUP, f"fencepost.{self.name}", AclOperation.READ)

    def allow_auditing(self) -> None:
        self.broker.allow(ResourceType.GROUP, "fencepost-reader-", AclOperation.DESCRIBE, prefix=True)

    def allow_sending(self) -> None:
        """What a pipeline into a topic needs besides."""
        create_topic(self.broker.administrator(), TopicRequest(self.target, 1, 1))
        self.broker.allow(ResourceType.TOPIC, self.target, AclOperation.WRITE, AclOperation.DESCRIBE_CONFIGS)
        self.broker.allow(ResourceType.TRANSACTIONAL_ID, f"{self.name}:", AclOperation.WRITE, prefix=True)

    def allow_resuming(self, source: str) -> None:
        """What `produce` needs to go on after a kill."""
        held = f"fencepost-{self.name}-{source}"
        self.broker.allow(ResourceType.TOPIC, self.name, AclOperation.WRITE, AclOperation.READ)
        self.broker.allow(ResourceType.GROUP, held, AclOperation.READ)
        self.broker.allow(ResourceType.TRANSACTIONAL_ID, held, AclOperation.WRITE)

    def allow_writing(self) -> None:
        """PostgreSQL's rights, as docs/security.md has them."""
        self.sql(f"GRANT USAGE ON SCHEMA {self.name} TO {self.role}")
        self.sql(f"GRANT SELECT, INSERT, UPDATE ON {self.name}.pipelines, {self.name}.positions TO {self.role}")
        self.sql(f"GRANT SELECT, INSERT ON {self.name}.spans TO {self.role}")
        self.sql(f"GRANT SELECT, INSERT ON {self.name} TO {self.role}")

    def allow_merging(self) -> None:
        """What upsert and dead letters need besides."""
        self.sql(f"GRANT UPDATE ON {self.name} TO {self.role}")
        self.sql(f"GRANT INSERT ON {self.name}_dead TO {self.role}")

    def produce(self, ids: Iterable[int], value: str = '{{"id": {}}}') -> None:
        producer = Producer({"bootstrap.servers": self.broker.administrator().servers})
        for id_ in ids:
            producer.produce(self.name, value.format(id_), partition=id_ % PARTITIONS)
        assert producer.flush(60) == 0

    def declare(self, kafka: Mapping[str, str], dsn: str | None = None, **parts: Any) -> Path:
        options = {"dsn": dsn or self.dsn, "table": self.name, "ledger_schema": self.name}
        declared = {
            "name": self.name,
            "guarantee": "exactly-once",
            "engine": "python",
            "kafka": dict(kafka),
            "source": {"topic": self.name, "value": "json", "schema": "id long"},
            "sink": {"format": "postgres", "options": {**options, **parts.pop("options", {})}},
            **parts,
        }
        path = self.folder / f"{uuid4().hex[:8]}.yml"
        path.write_text(yaml.safe_dump(declared))
        return path

    def landed(self) -> list[int]:
        return sorted(id_ for (id_,) in self.sql(f"SELECT id FROM public.{self.name}"))

    def sql(self, text: str) -> list[Any]:
        with closing(psycopg.connect(self.stack.dsn, autocommit=True)) as connection:
            cursor = connection.execute(text)
            return list(cursor.fetchall()) if cursor.description else []

    def close(self) -> None:
        self.sql(f"DROP OWNED BY {self.role}; DROP ROLE {self.role}")


@contextmanager
def secured_flow(broker: SecuredBroker, stack: Stack, folder: Path) -> Iterator[SecuredFlow]:
    flow = SecuredFlow(broker, stack, folder)
    try:
        yield flow
    finally:
        flow.close()
