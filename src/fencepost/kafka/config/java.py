"""One block of Kafka settings, as Spark's Kafka client takes them, which is Java's.

The block may be written in Java's words or in librdkafka's. What says how to get in and whom to trust is translated or
refused, never left out; other settings that only librdkafka has go along, and Java ignores them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fencepost.errors import Usage
from fencepost.kafka.config import jaas, oauth

_KAFKA = "org.apache.kafka.common.security"
_MODULES = {
    "PLAIN": f"{_KAFKA}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_KAFKA}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_KAFKA}.scram.ScramLoginModule",
}
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_RENAMED = {
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "sasl.mechanisms": "sasl.mechanism",
    "socket.receive.buffer.bytes": "receive.buffer.bytes",
    "socket.send.buffer.bytes": "send.buffer.bytes",
    "ssl.ca.pem": "ssl.truststore.certificates",
    "ssl.certificate.pem": "ssl.keystore.certificate.chain",
    "ssl.key.pem": "ssl.keystore.key",
}
_SHARED = {  # what both clients have, of what says how to get in and whom to trust
    "sasl.jaas.config",
    "sasl.kerberos.min.time.before.relogin",
    "sasl.kerberos.service.name",
    "sasl.mechanism",
    "sasl.oauthbearer.sub.claim.name",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.type",
}
_SECURITY = ("enable.sasl.", "enable.ssl.", "https.ca.", "sasl.", "ssl.")
_PYTHON = "remove it, or run on engine: python"


def java_settings(kafka: Mapping[str, str]) -> dict[str, str]:
    """The settings under Java's names. Raises Usage for what Java's client cannot be told, naming the key."""
    rest: dict[str, str] = {}
    for key, value in kafka.items():
        name = _RENAMED.get(key, key)
        if name in rest:
            raise Usage(f"{name} is set twice, once by {key}", "remove one of the two")
        rest[name] = value
    mapped = {**_login(rest), **_truststore(rest), **_keystore(rest), **_checks(rest)}
    for name in rest:
        if name.startswith(_SECURITY) and name not in _SHARED:
            raise Usage(f"{name}: Spark's Kafka client, which is Java's, does not have this setting", _PYTHON)
        if name in mapped:
            raise Usage(f"{name} is set twice, once in librdkafka's words", "remove one of the two")
    return {**rest, **mapped}


def _login(rest: dict[str, str]) -> dict[str, str]:
    """Who we are: Java wants the name of a class and its options in one line."""
    mechanism = rest.get("sasl.mechanism", "GSSAPI").upper()
    if mechanism == oauth.MECHANISM:
        return oauth.to_java(rest)
    if "sasl.username" in rest or "sasl.password" in rest:
        if mechanism not in _MODULES:
            raise Usage("sasl.username needs a password mechanism", f"set sasl.mechanism: {', '.join(_MODULES)}")
        user = {"username": rest.pop("sasl.username", ""), "password": rest.pop("sasl.password", "")}
        return {"sasl.jaas.config": jaas.written(_MODULES[mechanism], user)}
    if "sasl.kerberos.keytab" in rest:
        ticket = {"keyTab": rest.pop("sasl.kerberos.keytab"), "principal": rest.pop("sasl.kerberos.principal", "")}
        return {"sasl.jaas.config": jaas.written(_KERBEROS, {"useKeyTab": "true", "storeKey": "true", **ticket})}
    return {}


def _truststore(rest: dict[str, str]) -> dict[str, str]:
    """Whom we trust, as a file or as text: both are PEM."""
    location = rest.pop("ssl.ca.location", None)
    if location is not None:
        if Path(location).is_dir() or location == "probe":
            raise Usage("ssl.ca.location: Spark's Kafka client cannot read a folder", "set it to one PEM file")
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": location}
    if "ssl.truststore.certificates" in rest or "ssl.truststore.type" in rest:
        return {"ssl.truststore.type": rest.pop("ssl.truststore.type", "PEM").upper()}
    return {}


def _keystore(rest: dict[str, str]) -> dict[str, str]:
    """Our own certificate. Java wants it and its key in one file."""
    certificate, key = rest.pop("ssl.certificate.location", None), rest.pop("ssl.key.location", None)
    if certificate != key:
        raise Usage(
            "ssl.certificate.location and ssl.key.location: Spark's Kafka client reads both out of one file",
            "put the key (PKCS#8) and the certificate into one PEM file, and set both to it",
        )
    if certificate is not None:
        return {"ssl.keystore.type": "PEM", "ssl.keystore.location": certificate}
    if "ssl.keystore.key" in rest or "ssl.keystore.type" in rest:
        return {"ssl.keystore.type": rest.pop("ssl.keystore.type", "PEM").upper()}
    return {}


def _checks(rest: dict[str, str]) -> dict[str, str]:
    """How strictly the server is looked at: Java can leave its name unchecked, but not its certificate."""
    verification = "enable.ssl.certificate.verification"
    if rest.pop(verification, "true").lower() != "true":
        remedy = "give the authority's certificate as ssl.ca.location instead"
        raise Usage(f"{verification}: Spark's Kafka client always checks the certificate", remedy)
    checks = {}
    if "security.protocol" in rest:
        checks["security.protocol"] = rest.pop("security.protocol").upper()
    name = "ssl.endpoint.identification.algorithm"
    if name in rest:
        given = rest.pop(name).strip().lower()
        checks[name] = "" if given == "none" else given
    return checks
