"""The proxy as a process: `python -m fencepost.lab.proxy --control 0 broker-1=kafka:9093:9092`.

Prints one line of JSON with its ports when it is ready. Control is one JSON line in, one JSON line out.
Ends on SIGTERM and SIGINT.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import sys
from contextlib import suppress
from typing import Any

from fencepost.errors import FencepostError, Usage
from fencepost.lab.proxy.server import LOOPBACK, Protocol, ProxyServer


def listener(text: str) -> dict[str, Any]:
    """NAME=PROTOCOL:LISTENPORT:TARGETPORT for `listen`; port 0 is any port, target 0 is not known yet."""
    try:
        name, _, rest = text.partition("=")
        protocol, port, target = rest.split(":")
        there = [LOOPBACK, int(target)] if int(target) else None
        return {"name": name, "protocol": Protocol(protocol), "port": int(port), "target": there}
    except ValueError as error:
        kinds = "|".join(Protocol)
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME={kinds}:LISTENPORT:TARGETPORT") from error


async def reply(server: ProxyServer, line: bytes) -> dict[str, Any]:
    """The answer to one line of control."""
    try:
        try:
            arguments = dict(json.loads(line))
            command = arguments.pop("command")
        except (ValueError, TypeError, KeyError) as error:
            raise Usage(f"not a command: {line!r}", 'send one object with "command" a line') from error
        return {"result": await server.answer(command, arguments)}
    except FencepostError as error:
        return {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}


async def converse(server: ProxyServer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the lines of one control connection until it ends."""
    with suppress(ConnectionError):
        while line := await reader.readline():
            writer.write(json.dumps(await reply(server, line)).encode() + b"\n")
            await writer.drain()
    writer.close()


async def serve(control_port: int, listeners: list[dict[str, Any]]) -> None:
    """Run until a signal."""
    server = ProxyServer()
    stopped = asyncio.Event()
    conversations: set[asyncio.Task[None]] = set()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(converse(server, reader, writer))
        conversations.add(task)
        task.add_done_callback(conversations.discard)

    try:
        for arguments in listeners:
            await server.answer("listen", arguments)
        control = await asyncio.start_server(accept, LOOPBACK, control_port)
        port = control.sockets[0].getsockname()[1]
        ready = {"control": port, "listeners": await server.answer("ports", {})}
        sys.stdout.write(json.dumps(ready) + "\n")
        sys.stdout.flush()
        await stopped.wait()
        control.close()
    finally:
        await server.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m fencepost.lab.proxy", description=__doc__)
    parser.add_argument("--control", type=int, required=True, metavar="PORT", help="control port; 0 for any")
    parser.add_argument("listeners", type=listener, nargs="+", metavar="NAME=PROTOCOL:LISTENPORT:TARGETPORT")
    arguments = parser.parse_args()
    try:
        asyncio.run(serve(arguments.control, arguments.listeners))
    except FencepostError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
