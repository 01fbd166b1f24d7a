"""Which cluster a command talks to, and what it says when it cannot."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.local import Stack

Command = Callable[..., Any]


@pytest.fixture
def dead_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody can take meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


def test_an_unreachable_server_is_one_line(elsewhere: Command, dead_port: int) -> None:
    server = f"127.0.0.1:{dead_port}"
    failed = elsewhere("topic", "list", "--bootstrap-server", server)
    assert failed.code == 3
    assert failed.complaint.startswith(f"fencepost: Kafka does not answer at {server} (")
    assert "Connection refused" in failed.complaint
    assert failed.complaint.endswith("check that the brokers are up, the address, and security.protocol")


def test_a_server_that_is_silent_is_unreachable_too(elsewhere: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        server = f"127.0.0.1:{silent.getsockname()[1]}"
        failed = elsewhere("group", "list", "--bootstrap-server", server)
    assert failed.code == 3
    assert f"Kafka does not answer at {server}" in failed.complaint


def test_one_dead_server_among_the_living_does_no_harm(elsewhere: Command, stack: Stack, dead_port: int) -> None:
    servers = f"127.0.0.1:{dead_port},{stack.bootstrap_servers}"
    assert elsewhere("topic", "list", "--bootstrap-server", servers).code == 0


def test_without_options_it_is_the_local_stack(elsewhere: Command, stack: Stack, topic: str) -> None:
    listed = elsewhere("topic", "list", "--format", "json", "--home", str(stack.home)).json
    assert topic in {one["topic"] for one in listed["topics"]}
    by_variable = elsewhere("topic", "describe", topic, env={"FENCEPOST_HOME": str(stack.home)})
    assert by_variable.code == 0


def test_without_a_local_stack_it_says_how_to_get_one(elsewhere: Command, tmp_path: Path) -> None:
    failed = elsewhere("topic", "list", "--home", str(tmp_path / "none"))
    assert failed.code == 3
    assert "no local stack is running" in failed.complaint
    assert "fencepost up" in failed.complaint
    assert "--bootstrap-server" in failed.complaint


def test_kafkas_properties_file_leads_to_the_cluster(
    elsewhere: Command, stack: Stack, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(f"# ours\nsecurity.protocol: PLAINTEXT\nbootstrap.servers = \\\n  {stack.bootstrap_servers}\n")
    assert elsewhere("topic", "describe", topic, "--command-config", str(file)).code == 0
    wrong = elsewhere("topic", "describe", topic, "--command-config", str(file), "-X", "bootstrap.servers=nowhere")
    assert wrong.code == 2
    assert "bootstrap.servers: 'nowhere' is not an address" in wrong.complaint


def test_wrong_credentials_are_told_apart_from_a_dead_server(elsewhere: Command, stack: Stack, tmp_path: Path) -> None:
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={module} required username="alice" password="hunter2";\n'
    )
    refused = elsewhere("topic", "list", "--bootstrap-server", stack.bootstrap_servers, "--command-config", str(file))
    assert refused.code == 3
    assert f"Kafka at {stack.bootstrap_servers} refused authentication" in refused.complaint
    assert "hunter2" not in refused.complaint


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ("sasl.usrname=x", "sasl.usrname: unknown Kafka setting: did you mean sasl.username?"),
        ("security.protocol=TLS", "security.protocol"),
        ("nothing", "write -X key=value"),
    ],
)
def test_a_bad_setting_is_refused(elsewhere: Command, stack: Stack, setting: str, complaint: str) -> None:
    refused = elsewhere("topic", "list", "--bootstrap-server", stack.bootstrap_servers, "-X", setting)
    assert refused.code == 2
    assert complaint in refused.complaint
