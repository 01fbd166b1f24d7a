"""One block of Kafka settings, as librdkafka takes them; java.py has them as Spark's client does.

People write Kafka's own names, as in the Java client's properties file. librdkafka shares most of them, has
other names for some, and lacks the rest: what cannot be mapped is refused by name. No message shows a value
that may be a secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from shlex import quote

from fencepost.errors import Usage
from fencepost.kafka.config import jaas, oauth
from fencepost.kafka.config.librdkafka import SETTINGS
from fencepost.kafka.names import did_you_mean

_RENAMED = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
    "ssl.truststore.certificates": "ssl.ca.pem",
}

_NEWEST_TLS = "remove it: both sides agree on the newest version of TLS that they have"
_JAVA_ONLY = {
    "config.providers": "write the values themselves",
    "default.api.timeout.ms": "remove it",
    "sasl.client.callback.handler.class": "remove it: PLAIN, SCRAM, GSSAPI and OAUTHBEARER need none",
    "sasl.login.callback.handler.class": "it goes with OAUTHBEARER and its sasl.jaas.config; or write "
    "sasl.oauthbearer.method=oidc instead",
    "socket.connection.setup.timeout.max.ms": "set socket.connection.setup.timeout.ms instead",
    "ssl.enabled.protocols": _NEWEST_TLS,
    "ssl.engine.factory.class": "remove it",
    "ssl.keymanager.algorithm": "remove it",
    "ssl.protocol": _NEWEST_TLS,
    "ssl.provider": "remove it, or set ssl.providers for OpenSSL",
    "ssl.secure.random.implementation": "remove it",
    "ssl.trustmanager.algorithm": "remove it",
}

_SERVER = re.compile(r"(?:\w+://)?(?:\[[0-9a-fA-F:.]+\]|[^\s:/\[\],]+):(?P<port>\d{1,5})")

_PASSWORD_MODULES = {
    "org.apache.kafka.common.security.plain.PlainLoginModule",
    "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_OTHER_MODULES = {
    "com.sun.security.auth.module.Krb5LoginModule": "sasl.kerberos.principal and sasl.kerberos.keytab",
}


_OF_MEMBERS = {
    "group.id",
    "group.instance.id",
    "group.protocol",
    "group.protocol.type",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
}


def outsider_settings(kafka: Mapping[str, str]) -> dict[str, str]:
    """The settings of a client that reads or moves a group's offsets and never joins it.

    Without what makes a member: brokers take a static member's name in a request for that member's own, and refuse it.
    """
    return {name: value for name, value in librdkafka_settings(kafka).items() if name not in _OF_MEMBERS}


def librdkafka_settings(kafka: Mapping[str, str]) -> dict[str, str]:
    """The settings under librdkafka's names. Raises Usage for what librdkafka has not, naming the key."""
    rest = dict(kafka)
    mapped: dict[str, str] = {}
    for part in (_servers(rest), _login(rest), _truststore(rest), _keystore(rest), _host_check(rest)):
        mapped |= part
    for key, value in rest.items():
        name = _name(key)
        if name in mapped:
            raise Usage(f"{name} is set twice, once by {key}", "remove one of the two")
        mapped[name] = value
    return mapped


def _name(key: str) -> str:
    if key in _RENAMED:
        return _RENAMED[key]
    if key in _JAVA_ONLY:
        raise Usage(f"{key}: only Kafka's Java client has this setting", _JAVA_ONLY[key])
    if key not in SETTINGS:
        near = did_you_mean(key, SETTINGS | _RENAMED.keys(), "remove it")
        raise Usage(f"{key}: unknown Kafka setting", near)
    return key


def _servers(rest: dict[str, str]) -> dict[str, str]:
    value = rest.pop("bootstrap.servers", None)
    if value is None:
        return {}
    for server in value.split(","):
        match = _SERVER.fullmatch(server.strip())
        if match is None or not 0 < int(match["port"]) < 65536:
            raise Usage(f"bootstrap.servers: '{server.strip()}' is not an address", "write host:port[,host:port]")
    return {"bootstrap.servers": value}


def _login(rest: dict[str, str]) -> dict[str, str]:
    """`sasl.jaas.config` names a Java class and its options; librdkafka wants the user and the password."""
    config = rest.pop("sasl.jaas.config", None)
    if config is None:
        return {}
    module, options = jaas.read(config)
    if module == oauth.MODULE:
        return oauth.from_java(options, rest)
    if module not in _PASSWORD_MODULES:
        instead = _OTHER_MODULES.get(module, "sasl.username and sasl.password")
        raise Usage(f"sasl.jaas.config: librdkafka cannot use {module}", f"set {instead}")
    if options.keys() != {"username", "password"}:
        raise Usage(
            f"sasl.jaas.config: {module} has the options {', '.join(options) or '(none)'}",
            "librdkafka takes exactly username and password",
        )
    return {"sasl.username": options["username"], "sasl.password": options["password"]}


def _truststore(rest: dict[str, str]) -> dict[str, str]:
    kind = rest.pop("ssl.truststore.type", "JKS").upper()
    location = rest.pop("ssl.truststore.location", None)
    password = rest.pop("ssl.truststore.password", None)
    if location is None:
        return {}
    if kind != "PEM":
        raise Usage(
            f"ssl.truststore.location: librdkafka cannot read a truststore of type {kind}",
            f"convert it (keytool -list -rfc -keystore {quote(location)} > ca.pem), then set it to that file, and"
            " ssl.truststore.type=PEM",
        )
    if password is not None:
        raise Usage("ssl.truststore.password: a PEM truststore has none", "remove it")
    return {"ssl.ca.location": location}


def _keystore(rest: dict[str, str]) -> dict[str, str]:
    """Java's PEM keystore holds key and certificates in one file; librdkafka finds each in the same file."""
    kind = rest.pop("ssl.keystore.type", "JKS").upper()
    location = rest.pop("ssl.keystore.location", None)
    if location is None:
        return {}
    if kind == "PKCS12":
        return {"ssl.keystore.location": location}
    if kind != "PEM":
        raise Usage(
            f"ssl.keystore.location: librdkafka cannot read a keystore of type {kind}",
            f"convert it (keytool -importkeystore -srckeystore {quote(location)} -destkeystore key.p12"
            " -deststoretype PKCS12), then set it to that file, and ssl.keystore.type=PKCS12",
        )
    if "ssl.keystore.password" in rest:
        raise Usage("ssl.keystore.password: a PEM keystore has none", "set ssl.key.password for its key")
    return {"ssl.certificate.location": location, "ssl.key.location": location}


def _host_check(rest: dict[str, str]) -> dict[str, str]:
    """An empty value switches the check of the server's name off in Java; librdkafka says `none`."""
    key = "ssl.endpoint.identification.algorithm"
    return {key: rest.pop(key).strip().lower() or "none"} if key in rest else {}
