"""With one of three brokers down every command goes on: the one that is asked first may be the dead one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.kafka.client import Cluster
from fencepost.local import Stack
from support.commands import Command

IN_A_ROW = 20  # a client chooses whom it asks by chance
AT_MOST = 100


@pytest.fixture
def one_down(stack: Stack) -> Iterator[str]:
    """The servers as a client's settings name them, the dead one too."""
    servers = stack.bootstrap_servers
    lost = stack.node("broker-2")
    lost.kill()
    try:
        yield servers
    finally:
        lost.restart()
        stack.wait_in_sync()


@pytest.mark.timeout(300)
def test_a_first_contact_finds_those_who_live(topic: str, one_down: str, fencepost: Command) -> None:
    """Above all as long as the others still name the dead one to those who ask them."""
    servers = {"bootstrap.servers": one_down}
    for _ in range(AT_MOST):
        for _ in range(IN_A_ROW):
            Cluster(servers).close()
        with Cluster(servers) as cluster:
            found = set(cluster.brokers())
        assert {1, 3} <= found
        if found == {1, 3}:
            break
    assert found == {1, 3}
    assert fencepost("topic", "describe", topic).code == 0
