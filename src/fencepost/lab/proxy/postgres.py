"""PostgreSQL's wire as far as the proxy reads it: kinds of message, who connects, which statement runs."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import StrEnum


class Message(StrEnum):
    """What a client sends, by the protocol's own names."""

    STARTUP = "StartupMessage"
    CANCEL = "CancelRequest"
    AUTHENTICATION = "PasswordMessage"
    QUERY = "Query"
    PARSE = "Parse"
    BIND = "Bind"
    DESCRIBE = "Describe"
    EXECUTE = "Execute"
    CLOSE = "Close"
    FLUSH = "Flush"
    SYNC = "Sync"
    FUNCTION_CALL = "FunctionCall"
    COPY_DATA = "CopyData"
    COPY_DONE = "CopyDone"
    COPY_FAIL = "CopyFail"
    TERMINATE = "Terminate"


@dataclass(frozen=True, slots=True)
class Statement:
    """An SQL statement by its leading keyword, whether it comes as a Query or as Parse, Bind, Execute."""

    keyword: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "keyword", self.keyword.upper())


MESSAGES = {
    ord("p"): Message.AUTHENTICATION,
    ord("Q"): Message.QUERY,
    ord("P"): Message.PARSE,
    ord("B"): Message.BIND,
    ord("D"): Message.DESCRIBE,
    ord("E"): Message.EXECUTE,
    ord("C"): Message.CLOSE,
    ord("H"): Message.FLUSH,
    ord("S"): Message.SYNC,
    ord("F"): Message.FUNCTION_CALL,
    ord("d"): Message.COPY_DATA,
    ord("c"): Message.COPY_DONE,
    ord("f"): Message.COPY_FAIL,
    ord("X"): Message.TERMINATE,
}

ENDS_CYCLE = frozenset({Message.STARTUP, Message.QUERY, Message.FUNCTION_CALL, Message.SYNC})
"""Each of these is answered by one ReadyForQuery."""

EXTENDED = frozenset({Message.PARSE, Message.BIND, Message.DESCRIBE, Message.EXECUTE, Message.CLOSE})
"""Answered together, by the ReadyForQuery of the next Sync."""

ENDS_COPY = frozenset({Message.COPY_DONE, Message.COPY_FAIL})
"""Answered by the ReadyForQuery that the COPY itself is owed."""

ANSWERED = ENDS_CYCLE | EXTENDED | ENDS_COPY

HEADER = struct.Struct(">BI")  # kind, length; the length counts itself, not the kind
LENGTH_FIELD = 4
STARTUP_HEADER = struct.Struct(">II")  # length, code: a packet without a kind
SSL_REQUEST, GSSENC_REQUEST, CANCEL_REQUEST = 80877103, 80877104, 80877102
LARGEST_STARTUP = 10_000  # the server's own limit

READY_FOR_QUERY = ord("Z")
AUTHENTICATION = ord("R")
COPY_IN, COPY_BOTH = ord("G"), ord("W")
TURNS = frozenset({AUTHENTICATION, COPY_IN, COPY_BOTH})
"""After these the server waits for the client, in the middle of an answer."""

BODY_READ = 1024
"""Bytes of a message that are looked at: names and the leading keyword lie at its beginning."""

_LEADING = re.compile(rb"(?:[\s(;]|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*+([A-Za-z]+)", re.DOTALL)


def leading_keyword(sql: bytes) -> str:
    """The first word of a statement, behind white space and comments; empty when there is none."""
    found = _LEADING.match(sql)
    return found[1].decode().upper() if found else ""


def application_name(startup: bytes) -> str:
    """The application_name in a StartupMessage; empty when it names none."""
    fields = startup[STARTUP_HEADER.size :].split(b"\0")
    parameters = dict(zip(fields[::2], fields[1::2], strict=False))
    return parameters.get(b"application_name", b"").decode(errors="replace")


class Session:
    """What one connection has prepared and bound, so that an Execute can be told by its statement."""

    def __init__(self) -> None:
        self._statements: dict[bytes, str] = {}
        self._portals: dict[bytes, str] = {}

    def statement(self, message: Message, body: bytes) -> str:
        """The keyword of the statement that this message runs; empty when it runs none."""
        match message:
            case Message.QUERY:
                return leading_keyword(body)
            case Message.EXECUTE:
                return self._portals.get(body.split(b"\0", 1)[0], "")
            case Message.PARSE:
                name, _, sql = body.partition(b"\0")
                self._statements[name] = leading_keyword(sql)
            case Message.BIND:
                portal, _, rest = body.partition(b"\0")
                self._portals[portal] = self._statements.get(rest.split(b"\0", 1)[0], "")
            case Message.CLOSE:
                names = self._statements if body[:1] == b"S" else self._portals
                names.pop(body[1:].split(b"\0", 1)[0], None)
        return ""
