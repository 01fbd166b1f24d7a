"""libpq's connection for pgjdbc: what the string, the environment, a service and a password file say together.

libpq itself is asked: a connection of its own knows the server that it chose and every setting that it used.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote as shell_quote
from urllib.parse import quote

from fencepost.errors import Usage
from fencepost.sinks.postgres.reading import reader

INSTEAD = "or read it without Spark: --engine python"
_AS_IT_IS = ("sslpassword", "options")  # the same name and the same words on both sides
_OTHER_NAMES = {
    "channel_binding": "channelBinding",
    "connect_timeout": "connectTimeout",
    "gssencmode": "gssEncMode",
    "krbsrvname": "kerberosServerName",
    "require_auth": "requireAuth",
    "sslnegotiation": "sslNegotiation",
}
_NOT_THERE = ("sslcrl", "sslcrldir", "requirepeer", "ssl_min_protocol_version", "ssl_max_protocol_version")
_VERIFYING = ("verify-ca", "verify-full")
_HOME = Path("~/.postgresql")
_ALGORITHMS = {"RSA": bytes.fromhex("2a864886f70d010101"), "EC": bytes.fromhex("2a8648ce3d0201")}


@dataclass(frozen=True)
class Server:
    """The server that libpq is connected to, and by what settings."""

    host: str
    port: int
    database: str
    user: str
    password: str = field(repr=False)
    settings: Mapping[str, str] = field(repr=False)
    address: str = ""


def jdbc(dsn: str) -> tuple[str, dict[str, str]]:
    """The same database for pgjdbc: its URL, and what goes with it as properties, which Spark does not show.

    Raises Usage for what pgjdbc does not have.
    """
    with reader(dsn) as connection:
        info = connection.info
        known = {option.keyword.decode(): option.val for option in connection.pgconn.info if option.val is not None}
        settings = {name: value.decode() for name, value in known.items()}
        server = Server(info.host, info.port, info.dbname, info.user, info.password, settings, info.hostaddr)
    return translate(server)


def translate(server: Server) -> tuple[str, dict[str, str]]:
    host = _host(server)
    properties = {
        "user": server.user,
        "password": server.password,
        "driver": "org.postgresql.Driver",
        "ApplicationName": "fencepost-audit",
        "currentSchema": "pg_catalog",  # as for the other engine: the driver's own questions are not ours
        **{name: server.settings[name] for name in _AS_IT_IS if server.settings.get(name)},
        **{name: server.settings[ours] for ours, name in _OTHER_NAMES.items() if server.settings.get(ours)},
        **_tls(server.settings),
    }
    missing = [name for name in _NOT_THERE if server.settings.get(name) not in (None, "", "TLSv1.2")]
    if missing:
        raise Usage(f"Spark reads PostgreSQL by JDBC, which does not know {', '.join(missing)}", INSTEAD)
    where = f"[{host}]" if ":" in host else host
    return f"jdbc:postgresql://{where}:{server.port}/{quote(server.database, safe='')}", properties


def _host(server: Server) -> str:
    """The one that libpq chose of several; by the address where one is given, unless a certificate has the name."""
    if server.host.startswith(("/", "@")) or not server.host:
        raise Usage(
            f"Spark reads PostgreSQL by JDBC, which has no unix sockets, and it is at {server.host or 'a default one'}",
            f"give host=127.0.0.1 in the connection string; {INSTEAD}",
        )
    given = server.settings.get("hostaddr") and server.settings.get("sslmode") != "verify-full"
    return server.address if given else server.host


def _tls(settings: Mapping[str, str]) -> dict[str, str]:
    mode, root = settings.get("sslmode", "prefer"), settings.get("sslrootcert", "")
    found = {"sslmode": mode}
    if root == "system":
        found["sslfactory"] = "org.postgresql.ssl.DefaultJavaSSLFactory"  # Java's own list of authorities
    elif root:
        found["sslrootcert"] = root
    elif mode in _VERIFYING or (mode == "require" and _own("root.crt").exists()):
        found["sslrootcert"] = str(_own("root.crt"))
    if mode == "require" and root and root != "system":
        found["sslmode"] = "verify-ca"  # as libpq does where it has authorities
    return found if mode == "disable" else {**found, **_certificate(settings)}


def _certificate(settings: Mapping[str, str]) -> dict[str, str]:
    """The client's own, where there is one."""
    if settings.get("sslcertmode") == "disable":
        return {}
    certificate = Path(settings.get("sslcert") or _own("postgresql.crt"))
    key = Path(settings.get("sslkey") or _own("postgresql.key"))
    if not certificate.is_file() or not key.is_file():
        return {}
    return {"sslcert": str(certificate.absolute()), "sslkey": str(key.absolute()), **_algorithm(key)}


def _algorithm(key: Path) -> dict[str, str]:
    """pgjdbc takes keys in PKCS #8 and must be told of what kind they are. Raises Usage for others."""
    try:
        text = key.read_bytes()
    except OSError as error:
        raise Usage(f"the key {key} cannot be read: {error.strerror}", INSTEAD) from error
    if b"-----BEGIN " not in text:
        return {}  # DER, as pgjdbc always took it
    _, begin, rest = text.partition(b"-----BEGIN PRIVATE KEY-----")
    try:
        content = base64.b64decode(rest.partition(b"-----END")[0], validate=False) if begin else b""
    except binascii.Error:
        content = b""
    for name, mark in _ALGORITHMS.items():
        if mark in content[:64]:
            return {"pemKeyAlgorithm": name}
    raise Usage(
        f"Spark reads PostgreSQL by JDBC, which takes keys in PKCS #8 only, and {key} is none",
        f"openssl pkcs8 -topk8 -nocrypt -in {shell_quote(str(key))} -out client.pk8.pem, and give"
        f" sslkey=client.pk8.pem; {INSTEAD}",
    )


def _own(name: str) -> Path:
    return (_HOME / name).expanduser()
