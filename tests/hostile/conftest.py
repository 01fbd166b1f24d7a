"""The shared stack, and commands that run in this process."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml

from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack
from hostile.commands import fencepost

__all__ = ["fencepost"]

ANY_TIME = {"message.timestamp.after.max.ms": str(2**63 - 1)}  # or a broker refuses what is an hour ahead
Declare = Callable[..., Path]


@pytest.fixture
def topic(stack: Stack) -> str:
    name = f"hostile-{uuid.uuid4().hex[:12]}"
    create_topic(Cluster({"bootstrap.servers": stack.bootstrap_servers}), TopicRequest(name, 1, 3, ANY_TIME))
    return name


@pytest.fixture
def database(stack: Stack) -> Iterator[psycopg.Connection[Any]]:
    with closing(psycopg.connect(stack.dsn, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def declare(stack: Stack, topic: str, tmp_path: Path) -> Declare:
    """A pipeline file from the topic into a table of that name."""

    def write(table: str, **parts: Any) -> Path:
        declared = {
            "name": topic,
            "guarantee": "exactly-once",
            "engine": "python",
            "kafka": {"bootstrap.servers": stack.bootstrap_servers},
            "source": {"topic": topic},
            "sink": {"format": "postgres", "options": {"table": table, "dsn": stack.dsn}},
            **parts,
        }
        path = tmp_path / "fencepost.yml"
        path.write_text(yaml.safe_dump(declared))
        return path

    return write
