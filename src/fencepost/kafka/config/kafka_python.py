"""One block of Kafka settings, as kafka-python takes them: who we are and whom we trust, and nothing else.

What would let in somebody else, or nobody, is translated or refused by name; what only tunes librdkafka is left out.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any

from fencepost.errors import Usage
from fencepost.kafka.config.settings import outsider_settings

_SASL = {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
_SECURITY = ("enable.sasl.", "enable.ssl.", "https.ca.", "sasl.", "ssl.")
_KNOWN = {
    "enable.ssl.certificate.verification",
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.password",
    "sasl.username",
    "ssl.ca.location",
    "ssl.ca.pem",
    "ssl.certificate.location",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.location",
    "ssl.key.password",
}


def kafka_python_settings(kafka: Mapping[str, str]) -> dict[str, Any]:
    """The settings under kafka-python's names. Raises Usage for security that it cannot be told, naming the key."""
    rest = outsider_settings(kafka)
    if "bootstrap.servers" not in rest:
        raise Usage("bootstrap.servers is not set", "give --bootstrap-server host:port")
    for name in rest:
        if name.startswith(_SECURITY) and name not in _KNOWN:
            raise Usage(f"{name}: the client for transactions does not have this setting", "use SCRAM, PLAIN or TLS")
    protocol = rest.get("security.protocol", "plaintext").upper()
    return {
        "bootstrap_servers": [server.strip() for server in rest["bootstrap.servers"].split(",")],
        "client_id": rest.get("client.id", "fencepost"),
        "security_protocol": protocol,
        **(_login(rest) if protocol.startswith("SASL") else {}),
        **({"ssl_context": _trust(rest)} if protocol.endswith("SSL") else {}),
    }


def _login(rest: Mapping[str, str]) -> dict[str, str]:
    mechanism = rest.get("sasl.mechanism", rest.get("sasl.mechanisms", "GSSAPI")).upper()
    if mechanism not in _SASL:
        remedy = f"use one of {', '.join(sorted(_SASL))} where transactions are looked at"
        raise Usage(f"sasl.mechanism {mechanism}: the client for transactions does not have it", remedy)
    return {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": rest.get("sasl.username", ""),
        "sasl_plain_password": rest.get("sasl.password", ""),
    }


def _trust(rest: Mapping[str, str]) -> ssl.SSLContext:
    """Whom we trust, and our own certificate."""
    try:
        context = ssl.create_default_context(cafile=rest.get("ssl.ca.location"), cadata=rest.get("ssl.ca.pem"))
        if "ssl.certificate.location" in rest:
            own = rest.get("ssl.key.location"), rest.get("ssl.key.password")
            context.load_cert_chain(rest["ssl.certificate.location"], *own)
    except OSError as error:
        said = error.strerror or type(error).__name__
        raise Usage(f"ssl.ca.location or ssl.certificate.location: {said}", "give files in PEM") from error
    unnamed = rest.get("ssl.endpoint.identification.algorithm", "https").lower() == "none"
    unverified = rest.get("enable.ssl.certificate.verification", "true").lower() == "false"
    context.check_hostname = not (unnamed or unverified)
    if unverified:
        context.verify_mode = ssl.CERT_NONE
    return context
