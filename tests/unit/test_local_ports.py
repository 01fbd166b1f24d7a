"""Ports are real here."""

from __future__ import annotations

import socket

from fencepost.local import ports


def test_a_port_with_a_listener_is_taken_and_afterwards_free() -> None:
    with socket.create_server((ports.HOST, 0)) as server:
        port = server.getsockname()[1]
        assert not ports.free(port)
        assert ports.listening(port)
        assert ports.choose(port, ()) != port
    assert ports.free(port)
    assert not ports.listening(port)


def test_the_wanted_port_is_given_unless_it_was_given_before() -> None:
    wanted = ports.choose(None, ())
    assert ports.choose(wanted, ()) == wanted
    assert ports.choose(wanted, {wanted}) != wanted


def test_a_listener_on_all_addresses_takes_the_port_too() -> None:
    with socket.create_server(("", 0)) as server:
        assert not ports.free(server.getsockname()[1])
