"""Remedies that are commands of other tools, typed as they stand: Kafka's, Java's and OpenSSL's."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Producer

from consuming.relays import Relay
from fencepost import consume
from fencepost.engines.python.events import Event
from fencepost.errors import RecordsGone, Usage
from fencepost.kafka.config.settings import librdkafka_settings
from fencepost.local import Stack
from fencepost.machine import java
from fencepost.sinks.postgres.jdbc import _certificate
from remedies.tools import kafka_tool

pytestmark = pytest.mark.proof


def _typed(command: str, folder: Path, **environment: str) -> str:
    """In a shell, as it stands."""
    done = subprocess.run(
        ["/bin/bash", "-euc", command],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=folder,
        check=False,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture
def tools(tmp_path: Path) -> str:
    """A PATH with Kafka's tool under the name that its distribution gives it, and with Java's."""
    words = kafka_tool("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand")
    script = tmp_path / "bin" / "kafka-consumer-groups.sh"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    script.chmod(0o755)
    return f"{script.parent}:{Path(java.find().executable).parent}:{os.environ['PATH']}"


def _consume(relay: Relay, group: str, seen: list[int]) -> None:
    def handler(events: Sequence[Event]) -> None:
        seen.extend(json.loads(event.value or b"")["id"] for event in events)

    consume(handler, topic=relay.name, group=group, guarantee="at-least-once", kafka=relay.kafka, once=True)


@pytest.mark.parametrize("group", ["group-{}", "it's a group; of {}"])
def test_a_consumers_group_skips_records_that_are_gone_by_kafkas_tool(
    stack: Stack, tmp_path: Path, tools: str, group: str
) -> None:
    relay, seen, name = Relay(stack, tmp_path), list[int](), group.format(uuid4().hex[:8])
    relay.produce(range(20))
    _consume(relay, name, seen)
    relay.produce(range(20, 60))
    relay.delete_before(0, 15)
    relay.delete_before(1, 20)
    with pytest.raises(RecordsGone) as gone:
        _consume(relay, name, seen)
    found = re.search(r"kafka-consumer-groups.sh .*--execute", gone.value.remedy)
    assert found, gone.value.remedy
    for command in found[0].split(" and "):
        _typed(command, tmp_path, PATH=tools)
    _consume(relay, name, seen)
    assert Counter(seen) == Counter({*range(20), *range(30, 60, 2), *range(41, 60, 2)})


def _refusal(settings: dict[str, str]) -> str:
    with pytest.raises(Usage) as refused:
        librdkafka_settings(settings)
    found = re.search(r"\((keytool .*?)\), then set it to that file", refused.value.remedy)
    assert found, refused.value.remedy
    return found[1]


def test_java_stores_are_converted_by_keytool(tmp_path: Path, tools: str) -> None:
    folder = tmp_path / "my certificates"
    folder.mkdir()
    store = folder / "client.jks"
    made = "keytool -genkeypair -alias me -keyalg RSA -dname CN=me -storetype JKS -storepass secret1 -keypass secret1"
    _typed(f"{made} -keystore {shlex.quote(str(store))}", tmp_path, PATH=tools)
    trusted = {"ssl.truststore.location": str(store), "ssl.truststore.password": "secret1"}
    _typed(f"{_refusal(trusted)} </dev/null", tmp_path, PATH=tools)
    assert "BEGIN CERTIFICATE" in (tmp_path / "ca.pem").read_text()
    pem = {"ssl.truststore.location": str(tmp_path / "ca.pem"), "ssl.truststore.type": "PEM"}
    with pytest.raises(Usage, match="a PEM truststore has none: remove it"):
        librdkafka_settings({**trusted, **pem})
    _typed(
        f"printf 'secret1\\nsecret1\\nsecret1\\n' | {_refusal({'ssl.keystore.location': str(store)})}",
        tmp_path,
        PATH=tools,
    )
    own = {
        "ssl.keystore.location": str(tmp_path / "key.p12"),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": "secret1",
    }
    given = librdkafka_settings({"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SSL", **pem, **own})
    Producer(given)  # librdkafka opens both files, and raises where it cannot read them


def test_a_key_becomes_one_that_jdbc_reads_by_openssl(tmp_path: Path) -> None:
    key, certificate = tmp_path / "my key.pem", tmp_path / "client.crt"
    _typed("openssl genrsa -traditional -out 'my key.pem' 2048", tmp_path)
    certificate.write_text("-")
    given = {"sslcert": str(certificate), "sslkey": str(key)}
    with pytest.raises(Usage) as refused:
        _certificate(given)
    command, _, settings = refused.value.remedy.partition(", and give ")
    _typed(command, tmp_path)
    name, _, file = settings.partition(";")[0].partition("=")
    assert _certificate({**given, name: str(tmp_path / file)})["pemKeyAlgorithm"] == "RSA"
    assert (tmp_path / file).stat().st_mode & 0o077 == 0
