"""The stack as a test uses it: handles to break and restart each process, and addresses that lead elsewhere."""

from __future__ import annotations

import socket
import threading
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from fencepost.errors import Unreachable, Usage
from fencepost.local import Stack, ports, running
from fencepost.local.ports import HOST
from fencepost.machine import process
from stack.commands import Keepsake, processes_of


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """With the timeouts of fault tests: a broker that was killed is back in three seconds instead of ten."""
    stack = Stack(tmp_path_factory.mktemp("quick") / "home", quick_timeouts=True)
    try:
        yield stack
    finally:
        stack.down(wipe=True)
    assert processes_of(stack.home) == []


def addresses(stack: Stack) -> dict[str, str]:
    return {"bootstrap.servers": stack.bootstrap_servers, "postgres": stack.dsn}


@contextmanager
def forwarder(target: int) -> Iterator[tuple[int, list[int]]]:
    """A proxy that only counts: its port, and a list that grows by one for every connection."""
    seen: list[int] = []

    def pump(source: socket.socket, sink: socket.socket) -> None:
        with closing(source), closing(sink):
            try:
                while block := source.recv(65536):
                    sink.sendall(block)
            except OSError:
                pass

    def serve() -> None:
        while True:
            try:
                client, _address = server.accept()
            except OSError:
                return
            seen.append(client.fileno())
            upstream = socket.create_connection((HOST, target))
            for pair in ((client, upstream), (upstream, client)):
                threading.Thread(target=pump, args=[end.dup() for end in pair], daemon=True).start()
            client.close()
            upstream.close()

    with socket.create_server((HOST, 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()[1], seen
        server.shutdown(socket.SHUT_RDWR)


@pytest.mark.proof
def test_advertised_addresses_are_replaced(quick: Stack) -> None:
    own = quick.prepare()
    assert processes_of(quick.home) == []
    client, internal = own["broker-1", "CLIENT"], own["broker-1", "INTERNAL"]
    with forwarder(client) as (client_proxy, clients), forwarder(internal) as (internal_proxy, brokers):
        quick.advertise("broker-1", "CLIENT", client_proxy)
        quick.advertise("broker-1", "INTERNAL", internal_proxy)
        quick.up()
        quick.wait_in_sync()
        assert brokers  # replication goes through
        assert quick.bootstrap_servers.startswith(f"{HOST}:{client_proxy},")
        told = AdminClient({"bootstrap.servers": f"{HOST}:{client_proxy}"}).list_topics(timeout=10).brokers
        assert told[1].port == client_proxy
        assert told[2].port == own["broker-2", "CLIENT"]
        assert clients
        direct = AdminClient({"bootstrap.servers": quick.direct_servers}).list_topics(timeout=10).brokers
        assert direct[1].port == own["broker-1", "DIRECT"]
        before = {name: node.pid for name, node in quick.brokers.items()}
        quick.advertise("broker-1", "CLIENT", None)
        quick.advertise("broker-1", "INTERNAL", None)
        quick.up()
    assert {name for name, node in quick.brokers.items() if node.pid != before[name]} == {"broker-1"}
    assert quick.bootstrap_servers.startswith(f"{HOST}:{client},")


@pytest.mark.proof
def test_a_stack_that_runs_is_found_and_left_running(quick: Stack) -> None:
    quick.up()
    found = running(quick.home)
    assert found
    assert addresses(found) == addresses(quick)
    with Stack(quick.home) as same:
        assert same.postgres.pid == quick.postgres.pid
    assert not quick.status().missing
    assert running(quick.home / "other") is None


@pytest.mark.proof
def test_a_killed_broker_is_restarted_and_in_sync(quick: Stack) -> None:
    keepsake = Keepsake.leave(addresses(quick.up()))
    broker = quick.brokers["broker-1"]
    before = broker.pid
    broker.kill()
    assert not broker.alive
    with pytest.raises(Unreachable, match="broker-1 is not running"):
        broker.kill()
    broker.restart()
    assert broker.pid != before
    quick.wait_in_sync()
    keepsake.check(addresses(quick))


@pytest.mark.proof
def test_the_controller_is_restarted(quick: Stack) -> None:
    controller = quick.up().node("controller")
    before = controller.pid
    controller.kill()
    with socket.create_server((HOST, controller.ports["CONTROLLER"])):  # so the brokers must be told another one
        controller.restart()
    assert controller.pid != before
    quick.wait_in_sync()
    assert not quick.status().missing


def test_a_stopped_broker_falls_out_of_sync_and_comes_back(quick: Stack) -> None:
    broker = quick.up().brokers["broker-3"]
    quick.wait_in_sync()
    broker.stop()
    try:
        threads = [Path(f"/proc/{broker.pid}/task/{thread.id}/stat") for thread in psutil.Process(broker.pid).threads()]
        assert {thread.read_text().rpartition(")")[2].split()[0] for thread in threads} == {"T"}
        with pytest.raises(Unreachable, match="not full within"):
            quick.wait_in_sync(0.1)
    finally:
        broker.cont()
    quick.wait_in_sync()


def test_a_stopped_database_answers_nothing_until_it_goes_on(quick: Stack) -> None:
    quick.up()
    with psycopg.connect(quick.dsn) as sql:
        quick.postgres.stop()
        try:
            server = psutil.Process(quick.postgres.pid)
            states = [member.status() for member in (server, *server.children(recursive=True))]
            assert len(states) > 5
            assert set(states) == {psutil.STATUS_STOPPED}
            with pytest.raises(psycopg.OperationalError):
                psycopg.connect(quick.dsn, connect_timeout=2)
        finally:
            quick.postgres.cont()
        assert sql.execute("SELECT 1").fetchone() == (1,)  # the connection lived on


def test_a_killed_database_is_restarted_with_its_rows(quick: Stack) -> None:
    quick.up()
    with psycopg.connect(quick.dsn, autocommit=True) as sql:
        sql.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        quick.postgres.kill()
        with pytest.raises(psycopg.OperationalError):
            sql.execute("SELECT 1")
    quick.postgres.restart()
    with psycopg.connect(quick.dsn) as sql:
        assert sql.execute("SELECT count(*) FROM kept").fetchone() == (0,)


@pytest.mark.proof
@pytest.mark.parametrize("free_again", [False, True])
def test_a_port_lost_while_starting_is_replaced(
    quick: Stack, monkeypatch: pytest.MonkeyPatch, free_again: bool
) -> None:
    """Somebody else listens there by the time the broker wants to, and may be gone when we look."""
    quick.down()
    lost = quick.brokers["broker-2"].ports["CLIENT"]
    choose, given = ports.choose, list[int]()

    def choose_too_early(wanted: int | None, taken: Collection[int]) -> int:
        if given or wanted != lost:
            return choose(wanted, taken)
        given.append(lost)
        return lost

    monkeypatch.setattr(ports, "choose", choose_too_early)
    if free_again:
        free = ports.free
        monkeypatch.setattr(ports, "free", lambda port: port == lost or free(port))
    with socket.create_server((HOST, lost)):
        quick.up()
    assert given
    assert quick.brokers["broker-2"].ports["CLIENT"] != lost


def test_a_process_that_cannot_start_says_why(quick: Stack) -> None:
    quick.down()
    broken = Stack(quick.home, broker_settings={"log.retention.ms": "soon"})
    with pytest.raises(Unreachable) as failure:
        broken.up()
    assert "ended while it was starting" in failure.value.message
    assert "soon for configuration log.retention.ms" in failure.value.message
    assert str(quick.home) in failure.value.message
    assert processes_of(quick.home) == []


def test_names_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    stack = Stack(tmp_path / "none")
    with pytest.raises(Usage, match="one of controller, broker-1"):
        stack.node("broker-9")
    for name, listener in [("broker-9", "CLIENT"), ("controller", "CLIENT"), ("broker-1", "CLIENTS")]:
        with pytest.raises(Usage, match="one of CLIENT, INTERNAL, DIRECT"):
            stack.advertise(name, listener, 1)
        with pytest.raises(Usage, match=f"{name} has no listener {listener}"):
            Stack(tmp_path / "none", advertise={(name, listener): 1})
    assert not (tmp_path / "none").exists()
    assert process.identify(0) is None
