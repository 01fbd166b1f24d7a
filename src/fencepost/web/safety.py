"""Who may ask, and what a browser may do with the answer. Nothing of a request is believed before it came through here.

- The Host must be an address or a name that was given: a name of others that leads here (DNS rebinding) is refused.
- The Origin, where a browser sends one, must be that host. A change needs it, and a token that only our pages have.
- A page of another site may lead here, but not ask in the background: a search costs the cluster something.
- With a password everything needs it.
- The browser loads and runs nothing but our own files, shows us in no frame, and keeps nothing.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import os
import secrets
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOOPBACK_NAMES = {"localhost", "ip6-localhost"}
READING = {"GET", "HEAD"}
MOST_BODY = 64 << 10
WRONG_AT_ONCE, WRONG_SECONDS = 10, 30.0  # so many wrong passwords of one address, in so long: then it must wait
TOKEN = "x-fencepost-token"  # noqa: S105 (the name of a header)
HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


@dataclass(frozen=True)
class Safety:
    """How the server is guarded."""

    names: Collection[str] = ()  # that it may be called by, besides loopback and addresses
    password: str | None = field(default=None, repr=False)
    changes: bool = False
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


class Guard:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, safety: Safety) -> None:
        self._app = app
        self._safety = safety
        self._wrong: list[tuple[float, str]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refusal = self._refusal(scope, Headers(scope=scope))
        answer = refusal or self._app
        await answer(scope, receive, _guarded(send, str(scope["path"])))

    def _refusal(self, scope: Scope, headers: Headers) -> Response | None:
        safety, method = self._safety, scope["method"]
        if not known_host(headers.getlist("host"), safety.names):
            return _no(421, "this name is not known here: ask by address, or start with --allowed-host NAME")
        if not same_origin(headers.getlist("origin"), headers["host"], needed=method not in READING):
            return _no(403, "this was sent by a page of another origin")
        if in_the_background(headers):
            return _no(403, "this was asked in the background by a page of another site")
        if (wrong := self._without_password(headers, _client(scope))) is not None:
            return wrong
        return None if method in READING else self._refused_change(method, headers)

    def _refused_change(self, method: str, headers: Headers) -> Response | None:
        if method != "POST":
            return _no(405, "only GET, HEAD and POST are answered")
        if not self._safety.changes:
            return _no(403, "this page only looks: start it with --allow-changes")
        if not secrets.compare_digest(headers.get(TOKEN, "").encode(), self._safety.token.encode()):
            return _no(403, "the page is of an earlier start of the server: reload it, and repeat that")
        size = headers.get("content-length", "")
        return (
            None
            if size.isdecimal() and int(size) <= MOST_BODY
            else _no(413, "the request has no size, or is too large")
        )

    def _without_password(self, headers: Headers, client: str) -> Response | None:
        if self._safety.password is None:
            return None
        now = time.monotonic()
        self._wrong = [(at, who) for at, who in self._wrong if at > now - WRONG_SECONDS]
        if sum(who == client for _, who in self._wrong) >= WRONG_AT_ONCE:
            return _no(429, "too many wrong passwords: wait half a minute")
        given = given_password(headers.get("authorization", ""))
        if given is not None and secrets.compare_digest(given, os.fsencode(self._safety.password)):
            return None
        if given is not None:
            self._wrong.append((now, client))
        return _no(401, "a password is needed", {"www-authenticate": 'Basic realm="fencepost", charset="UTF-8"'})


def known_host(given: Collection[str], names: Collection[str]) -> bool:
    """Is the one Host an address, loopback's name, or one of these? An attacker's page is known by a name of his."""
    if len(given) != 1:
        return False
    try:
        host = urlsplit(f"//{next(iter(given))}").hostname or ""
        ipaddress.ip_address(host)
    except ValueError:
        return host_name(next(iter(given))) in {*LOOPBACK_NAMES, *(name.lower() for name in names)}
    return True


def host_name(given: str) -> str:
    """Without its port, as names are compared."""
    name, colon, port = given.rpartition(":")
    return (name if colon and port.isdecimal() else given).lower().rstrip(".")


def same_origin(given: Collection[str], host: str, *, needed: bool) -> bool:
    """Browsers send an origin with every change; a page of nobody ("null") has none of ours."""
    if not given:
        return not needed
    if len(given) != 1:
        return False
    scheme, separator, origin = next(iter(given)).partition("://")
    return bool(separator) and scheme in ("http", "https") and origin.lower() == host.lower()


def in_the_background(headers: Mapping[str, str]) -> bool:
    """Does a page of another site ask, as an image, a script or a frame would? A link that is followed does not."""
    foreign = headers.get("sec-fetch-site", "") in {"cross-site", "same-site"}
    return foreign and headers.get("sec-fetch-dest", "") != "document"


def given_password(authorization: str) -> bytes | None:
    """Of HTTP's Basic scheme, whoever the user is; None: none was given."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(encoded, validate=True).partition(b":")[2]
    except (binascii.Error, ValueError):
        return b""


def _client(scope: Scope) -> str:
    """The address that asks: one who tries passwords does not shut others out."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _no(status: int, why: str, headers: Mapping[str, str] | None = None) -> Response:
    return PlainTextResponse(f"{why}\n", status, headers)


def _guarded(send: Send, path: str) -> Send:
    kept = "max-age=3600" if path.startswith("/static/") else "no-store"

    async def answer(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update({**HEADERS, "cache-control": kept})
        await send(message)

    return answer
