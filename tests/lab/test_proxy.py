"""The proxy as such, in this process and in another: frames however they are cut, listeners, rules, its end."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost.errors import Unreachable, Usage
from fencepost.lab.proxy import (
    Action,
    Api,
    Block,
    Direction,
    Message,
    Protocol,
    Proxy,
    ProxyControl,
    RemoteProxy,
    Rule,
    RuleId,
)
from lab.upstream import RESET, Echo, frame, message

NAME = "echo"


@contextmanager
def process(*listeners: str) -> Iterator[tuple[subprocess.Popen[str], dict[str, int]]]:
    """A proxy in a process of its own, and the ports that it says it has."""
    command = [sys.executable, "-m", "fencepost.lab.proxy", "--control", "0", *listeners]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout
            ready = json.loads(running.stdout.readline())
            yield running, {"control": ready["control"], **ready["listeners"]}
        finally:
            running.terminate()
            assert running.wait(10) == 0


@pytest.fixture
def upstream() -> Iterator[Echo]:
    with Echo() as echo:
        yield echo


@pytest.fixture(params=["here", "in a process"])
def proxy(request: pytest.FixtureRequest, upstream: Echo) -> Iterator[ProxyControl]:
    """With a Kafka listener in front of the echo."""
    if request.param == "here":
        with Proxy() as local:
            local.listen(NAME, target=upstream.address, protocol=Protocol.KAFKA)
            yield local
    else:
        with process(f"{NAME}=kafka:0:{upstream.address[1]}") as (_, ports):
            yield RemoteProxy(ports["control"])


def connect(proxy: ProxyControl, name: str = NAME) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.ports()[name]), 10)


def read(connection: socket.socket, size: int) -> bytes:
    with connection.makefile("rb") as stream:
        return stream.read(size)


def round_trip(connection: socket.socket) -> None:
    connection.sendall(FETCH)
    assert read(connection, len(FETCH)) == FETCH


def assert_reset(connection: socket.socket) -> None:
    with pytest.raises(ConnectionResetError):
        connection.recv(1)


def assert_refused(proxy: ProxyControl, name: str) -> None:
    with pytest.raises(ConnectionResetError):  # while connecting, or right after
        read(connect(proxy, name), 1)


FETCH, PRODUCE = frame(Api.FETCH), frame(Api.PRODUCE)
PIECES = {
    "byte by byte": [FETCH, PRODUCE, FETCH],
    "many in one write": [frame(Api.FETCH, b"x" * (n % 50)) for n in range(20_000)],
    "larger than any buffer": [FETCH, frame(Api.PRODUCE, b"x" * 5_000_000), FETCH],
    "an api nobody knows": [frame(999)],
}


@pytest.mark.parametrize("frames", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("ruled", [False, True], ids=["no rules", "a rule for others"])
def test_frames_arrive_as_they_were_sent(proxy: ProxyControl, upstream: Echo, frames: list[bytes], ruled: bool) -> None:
    if ruled:
        proxy.add(Rule(action=Action.DROP, client="somebody else"))
    sent = b"".join(frames)
    step = 1 if len(sent) < 500 else len(sent)
    with connect(proxy) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer = threading.Thread(target=send_in_steps, args=[connection, sent, step])
        writer.start()
        assert read(connection, len(sent)) == sent
        writer.join()
    upstream.await_heard(sent)
    assert sum(proxy.seen().values()) == len(frames)


def send_in_steps(connection: socket.socket, data: bytes, step: int) -> None:
    for at in range(0, len(data), step):
        connection.sendall(data[at : at + step])


@settings(max_examples=50, deadline=None)
@given(
    contents=st.lists(st.tuples(st.sampled_from([Api.METADATA, Api.FETCH]), st.binary(max_size=2000)), min_size=1),
    direction=st.sampled_from(Direction),
    data=st.data(),
)
def test_only_the_ruled_frames_are_missing_wherever_reads_are_cut(
    contents: list[tuple[Api, bytes]], direction: Direction, data: st.DataObject
) -> None:
    frames = [frame(api, body, version=n) for n, (api, body) in enumerate(contents)]
    kept = [each for each, (api, _) in zip(frames, contents, strict=True) if api is Api.FETCH]
    sent = b"".join(frames)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(sent)), max_size=10)))
    with Echo() as upstream, Proxy() as proxy:
        proxy.listen(NAME, target=upstream.address, protocol=Protocol.KAFKA)
        rule = proxy.add(Rule(action=Action.DROP, request=Api.METADATA, direction=direction))
        with connect(proxy) as connection:
            for begin, end in zip([0, *cuts], [*cuts, len(sent)], strict=True):
                connection.sendall(sent[begin:end])
            connection.shutdown(socket.SHUT_WR)
            assert connection.makefile("rb").read() == b"".join(kept)
        assert proxy.witness(rule).done == len(frames) - len(kept)


class TestEnd:
    def test_what_was_sent_before_it_arrives_and_is_answered(self, proxy: ProxyControl, upstream: Echo) -> None:
        with connect(proxy) as connection:
            connection.sendall(FETCH + PRODUCE[:9])
            connection.shutdown(socket.SHUT_WR)
            assert connection.makefile("rb").read() == FETCH + PRODUCE[:9]
        upstream.await_ended(1)

    def test_what_was_forwarded_before_a_reset_arrives(self, proxy: ProxyControl, upstream: Echo) -> None:
        large = frame(Api.FETCH, b"x" * 1_000_000)
        rule = proxy.add(Rule(action=Action.RESET, request=Api.PRODUCE))
        upstream.mute = True
        upstream.listening.clear()
        with connect(proxy) as connection:
            connection.sendall(large + PRODUCE)
            proxy.wait_done(rule)
            upstream.listening.set()
            assert_reset(connection)
        upstream.await_heard(large)

    def test_a_reset_of_the_servers_is_a_reset_for_the_client(self, proxy: ProxyControl, upstream: Echo) -> None:
        with connect(proxy) as connection:
            connection.sendall(frame(Api.FETCH, RESET))
            assert_reset(connection)

    def test_in_a_black_hole_nobody_learns_of_it(self, proxy: ProxyControl, upstream: Echo) -> None:
        proxy.listen("open", target=upstream.address, protocol=Protocol.KAFKA)
        with connect(proxy) as connection:
            round_trip(connection)
            proxy.block(NAME)
        with connect(proxy, "open") as other:
            for _ in range(20):  # by then the proxy has seen the end as well
                round_trip(other)
            assert upstream.ended == 0
            proxy.unblock(NAME)
            upstream.await_ended(1)

    def test_what_is_not_kafka_is_reset(self, proxy: ProxyControl, upstream: Echo) -> None:
        with connect(proxy) as connection:
            connection.sendall(b"\0\0\0\1" + b"x" * 20)
            assert_reset(connection)
        assert proxy.seen() == {(NAME, "malformed"): 1}
        assert upstream.heard == b""


class TestDetached:
    def detach(self, proxy: ProxyControl) -> RuleId:
        rule = proxy.add(Rule(action=Action.HOLD_DETACH, request=Api.PRODUCE, count=1))
        with connect(proxy) as connection:
            round_trip(connection)
            connection.sendall(PRODUCE + FETCH)
            assert_reset(connection)
        assert proxy.wait_hits(rule) == (1, 0)
        return rule

    def test_a_request_outlives_its_client_until_it_is_cut(self, proxy: ProxyControl, upstream: Echo) -> None:
        self.detach(proxy)
        assert proxy.connections(NAME) == 1
        assert upstream.ended == 0
        proxy.cut(NAME)
        upstream.await_ended(1)
        assert upstream.heard == FETCH

    def test_it_is_gone_with_the_proxy(self, upstream: Echo) -> None:
        before = set(threading.enumerate())  # another suite's proxy may be alive for as long as its stack
        with Proxy() as proxy:
            proxy.listen(NAME, target=upstream.address, protocol=Protocol.KAFKA)
            self.detach(proxy)
        upstream.await_ended(1)
        assert upstream.heard == FETCH
        assert "proxy" not in [thread.name for thread in set(threading.enumerate()) - before]

    def test_released_it_alone_arrives(self, proxy: ProxyControl, upstream: Echo) -> None:
        rule = self.detach(proxy)
        proxy.release(rule)
        assert proxy.wait_done(rule) == (1, 1)
        upstream.await_ended(1)
        assert upstream.heard == FETCH + PRODUCE


def test_a_copy_is_cut_after_exactly_n_bytes(proxy: ProxyControl, upstream: Echo) -> None:
    proxy.listen("db", target=upstream.address, protocol=Protocol.POSTGRES)
    rule = proxy.add(Rule(action=Action.RESET, request=Message.COPY_DATA, after_bytes=7))
    startup = b"\0\0\0\x09\0\x03\0\0\0"
    first, second = message(b"d", b"12345"), message(b"d", b"67890")
    with connect(proxy, "db") as connection:
        connection.sendall(startup + first + second)
        with pytest.raises(ConnectionResetError):
            connection.makefile("rb").read()
    upstream.await_heard(startup + first + second[:7])
    assert proxy.witness(rule) == (1, 1)


class TestListeners:
    def test_without_a_target_connections_are_reset_until_one_is_named(
        self, proxy: ProxyControl, upstream: Echo
    ) -> None:
        proxy.listen("later", target=None, protocol=Protocol.KAFKA)
        assert_refused(proxy, "later")
        proxy.retarget("later", upstream.address)
        with connect(proxy, "later") as connection:
            round_trip(connection)

    def test_nobody_at_the_target_is_a_reset(self, proxy: ProxyControl) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = ("127.0.0.1", int(taken.getsockname()[1]))
        proxy.listen("nobody", target=address, protocol=Protocol.KAFKA)
        assert_refused(proxy, "nobody")
        assert proxy.connections("nobody") == 0

    def test_a_rule_of_one_listener_leaves_the_other_alone(self, proxy: ProxyControl, upstream: Echo) -> None:
        proxy.listen("other", target=upstream.address, protocol=Protocol.KAFKA)
        rule = proxy.add(Rule(action=Action.RESET, listener=NAME))
        with connect(proxy, "other") as connection:
            round_trip(connection)
        with connect(proxy) as connection:
            connection.sendall(FETCH)
            assert_reset(connection)
        assert proxy.witness(rule) == (1, 1)

    def test_what_makes_no_sense_is_refused(self, proxy: ProxyControl, upstream: Echo) -> None:
        port = proxy.ports()[NAME]
        with pytest.raises(Usage):
            proxy.listen(NAME, upstream.address, Protocol.KAFKA)
        with pytest.raises(Usage):
            proxy.listen("taken", upstream.address, Protocol.KAFKA, port=port)
        with pytest.raises(Usage):
            proxy.cut("nowhere")
        with pytest.raises(Usage):
            proxy.add(Rule(action=Action.DROP, listener="nowhere"))
        with pytest.raises(Usage):
            proxy.block(NAME, Block.REFUSE, Direction.REQUEST)
        with pytest.raises(Usage):
            proxy.release(RuleId(99))
        assert proxy.ports() == {NAME: port}


def test_waiting_for_a_fault_that_does_not_fire_is_an_error(proxy: ProxyControl) -> None:
    rule = proxy.add(Rule(action=Action.DROP, request=Api.END_TXN))
    for wait in (proxy.wait_hits, proxy.wait_done):
        with pytest.raises(Unreachable, match="drop END_TXN"):
            wait(rule, timeout=0.05)


def test_a_closed_proxy_says_so(upstream: Echo) -> None:
    with Proxy() as proxy:
        port = proxy.listen(NAME, upstream.address, Protocol.KAFKA)
    with pytest.raises(Usage):
        proxy.clear()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 10)
    proxy.close()


class TestProcess:
    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
    def test_it_ends_on_a_signal_and_its_control_says_so(self, upstream: Echo, number: int) -> None:
        with process(f"{NAME}=kafka:0:{upstream.address[1]}") as (running, ports):
            remote = RemoteProxy(ports["control"])
            with connect(remote) as connection:
                round_trip(connection)
                running.send_signal(number)
                assert running.wait(10) == 0
                assert_reset(connection)
        with pytest.raises(Unreachable):
            remote.ports()

    def test_control_is_a_line_of_json_in_and_one_out(self, upstream: Echo) -> None:
        lines = [
            '{"command": "add", "rule": {"action": "drop", "request": "api:PRODUCE", "count": 1}}',
            '{"command": "witness", "rule": 1}',
            '{"command": "witness"}',
            '{"command": "close"}',
            "nonsense",
            "[1]",
        ]
        with (
            process(f"{NAME}=kafka:0:0") as (_, ports),
            socket.create_connection(("127.0.0.1", ports["control"]), 10) as connection,
        ):
            connection.sendall("\n".join([*lines, ""]).encode())
            answers = [json.loads(line) for _, line in zip(lines, connection.makefile(), strict=False)]
        assert answers[:2] == [{"result": 1}, {"result": [0, 0]}]
        assert [answer["error"] for answer in answers[2:]] == ["Usage"] * 4

    @pytest.mark.parametrize("text", ["echo", "echo=kafka:1", "echo=smtp:0:1", "echo=kafka:x:1"])
    def test_a_listener_that_cannot_be_read_is_refused(self, text: str) -> None:
        command = [sys.executable, "-m", "fencepost.lab.proxy", "--control", "0", text]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 2
        assert text in ended.stderr
