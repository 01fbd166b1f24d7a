"""Why a server's certificate is not trusted. librdkafka says the same of a wrong name as of a wrong authority."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import Any

_SECONDS = 3.0  # for each server
_OTHER_NAME = {62, 63, 64}  # OpenSSL's codes: the name, the mail address or the IP address does not match
_OUT_OF_TIME = {9, 10}  # not yet valid, and not any more
_AUTHORITY = "set ssl.truststore.location (type PEM) or ssl.ca.location to the certificate of its issuer"


def distrust(settings: Mapping[str, Any]) -> tuple[str, str] | None:
    """What is wrong with a server's certificate, and what to do; None where that is not what is wrong.

    `settings` are librdkafka's. Asks each server once, and is done within a few seconds.
    """
    if "SSL" not in str(settings.get("security.protocol", "")).upper():
        return None
    try:
        context = _context(settings)
    except (OSError, ValueError):
        return None  # librdkafka says that better
    for server in str(settings["bootstrap.servers"]).split(","):
        host, _, port = server.strip().rpartition("://")[2].rpartition(":")
        if reason := _refused(context, host.strip("[]"), int(port)):
            return reason
    return None


def _context(settings: Mapping[str, Any]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.get("ssl.endpoint.identification.algorithm") != "none"
    if settings.get("ssl.ca.pem"):
        context.load_verify_locations(cadata=settings["ssl.ca.pem"])
    elif settings.get("ssl.ca.location"):
        context.load_verify_locations(cafile=settings["ssl.ca.location"])
    else:
        context.load_default_certs()
    return context


def _refused(context: ssl.SSLContext, host: str, port: int) -> tuple[str, str] | None:
    try:
        _names(context, host, port)
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _OTHER_NAME:
            return _misnamed(context, host, port)
        what = f"the certificate of {host}:{port} is not trusted: {error.verify_message}"
        return what, "renew it" if error.verify_code in _OUT_OF_TIME else _AUTHORITY
    except OSError:
        pass
    return None


def _misnamed(context: ssl.SSLContext, host: str, port: int) -> tuple[str, str] | None:
    context.check_hostname = False
    try:
        names = _names(context, host, port)
    except OSError:
        names = []
    whose = ", ".join(names) or "another name"
    return (
        f"the certificate of {host}:{port} is for {whose}, not for {host}",
        "connect to a name in the certificate, or add this name to it",
    )


def _names(context: ssl.SSLContext, host: str, port: int) -> list[str]:
    """The names in the server's certificate. Raises OSError, of which an SSLError is one."""
    with (
        socket.create_connection((host, port), timeout=_SECONDS) as line,
        context.wrap_socket(line, server_hostname=host) as secured,
    ):
        certificate: dict[str, Any] = dict(secured.getpeercert() or {})
    return [name for _kind, name in certificate.get("subjectAltName", ())]
