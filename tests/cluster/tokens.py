"""A place that gives tokens to who knows its secret, as an OAuth server does, and the key by which they are known."""

from __future__ import annotations

import json
import ssl
import subprocess
import time
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs
from uuid import uuid4

from fencepost.local import ports

CLIENT, SCOPE, KEY_ID = "client-of-tokens", "kafka", "the-only-key"


class TokenKey:
    """Signs tokens. `published` is what a broker reads to know them again."""

    def __init__(self, openssl: str, key: Path) -> None:
        self._openssl, self._key = openssl, key
        self.published = key.with_name("jwks.json")
        modulus = self._run("rsa", "-in", str(key), "-noout", "-modulus").decode().strip().partition("=")[2]
        parts = {"kty": "RSA", "use": "sig", "alg": "RS256", "kid": KEY_ID, "e": "AQAB"}
        self.published.write_text(json.dumps({"keys": [{**parts, "n": _text(bytes.fromhex(modulus))}]}))

    def token(self, subject: str) -> str:
        now = int(time.time())
        claims = {"sub": subject, "iat": now - 5, "exp": now + 3600, "scope": SCOPE, "jti": uuid4().hex}
        head = {"alg": "RS256", "kid": KEY_ID, "typ": "JWT"}
        said = f"{_text(json.dumps(head).encode())}.{_text(json.dumps(claims).encode())}"
        return f"{said}.{_text(self._run('dgst', '-sha256', '-sign', str(self._key), said=said))}"

    def _run(self, *words: str, said: str = "") -> bytes:
        return subprocess.run([self._openssl, *words], input=said.encode(), check=True, capture_output=True).stdout


def _text(data: bytes) -> str:
    return urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class TokenPlace:
    """Where tokens are had, with what was asked of it."""

    port: int
    secret: str
    given: list[str] = field(default_factory=list)  # tokens
    refused: int = 0

    @property
    def url(self) -> str:
        return f"https://{ports.HOST}:{self.port}/token"


@contextmanager
def token_place(key: TokenKey, certificate: Path, subject: str, secret: str) -> Iterator[TokenPlace]:
    """Over TLS, on loopback, until the block ends."""
    known = b64encode(f"{CLIENT}:{secret}".encode()).decode()

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
            right = self.headers["Authorization"] == f"Basic {known}"
            if right and asked == {"grant_type": ["client_credentials"], "scope": [SCOPE]}:
                place.given.append(key.token(subject))
                self._say(200, {"access_token": place.given[-1], "token_type": "Bearer", "expires_in": 3600})
            else:
                place.refused += 1
                self._say(401, {"error": "invalid_client"})

        def _say(self, code: int, answer: dict[str, object]) -> None:
            text = json.dumps(answer).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_words: object) -> None:
            """To nobody."""

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = ThreadingHTTPServer((ports.HOST, 0), Answer)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    place = TokenPlace(server.server_address[1], secret)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield place
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
