"""OAUTHBEARER: tokens by OAuth's client credentials, in librdkafka's words and in Java's.

librdkafka has a setting for each part. Java has the class that asks for tokens, the address, and the rest in its line.
"""

from __future__ import annotations

from fencepost.errors import Usage
from fencepost.kafka.config import jaas

MECHANISM = "OAUTHBEARER"
_KAFKA = "org.apache.kafka.common.security.oauthbearer"
MODULE = f"{_KAFKA}.OAuthBearerLoginModule"
HANDLER = f"{_KAFKA}.OAuthBearerLoginCallbackHandler"
_HANDLERS = {HANDLER, f"{_KAFKA}.secured.OAuthBearerLoginCallbackHandler"}  # the second is its name of before
HANDLER_KEY = "sasl.login.callback.handler.class"
URL_KEY = "sasl.oauthbearer.token.endpoint.url"

_METHOD = "sasl.oauthbearer.method"
_GRANT = "sasl.oauthbearer.grant.type"
_EXTENSIONS = "sasl.oauthbearer.extensions"
_EXTENSION = "extension_"  # how Java's options that are extensions begin
_OPTIONS = {  # Java's, in the order of its documentation, and librdkafka's word for each
    "clientId": "sasl.oauthbearer.client.id",
    "clientSecret": "sasl.oauthbearer.client.secret",
    "scope": "sasl.oauthbearer.scope",
    "ssl.truststore.location": "https.ca.location",
    "ssl.truststore.certificates": "https.ca.pem",
}
# Spark logs the line at DEBUG, and hides what stands between `password="` and its last quotation mark, not this secret.
# An option of that name, which nobody reads, in front of all others hides them too.
_VEIL = {"password": "none"}
_NEWER = {  # Kafka 4.1's words, which librdkafka has too
    "sasl.oauthbearer.client.credentials.client.id": "sasl.oauthbearer.client.id",
    "sasl.oauthbearer.client.credentials.client.secret": "sasl.oauthbearer.client.secret",
}
_REQUIRED = (URL_KEY, "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret")


def from_java(options: dict[str, str], rest: dict[str, str]) -> dict[str, str]:
    """In librdkafka's words, with what it takes of Java's out of `rest`. Raises Usage for what librdkafka cannot do."""
    if rest.pop(HANDLER_KEY, None) not in _HANDLERS:
        raise Usage(
            f"{HANDLER_KEY}: librdkafka asks for tokens by OAuth's client credentials, as Kafka's own class does",
            f"set it to {HANDLER}",
        )
    kind = options.pop("ssl.truststore.type", "PEM").upper()
    if options.get("password") == _VEIL["password"]:
        del options["password"]
    extensions = {name: options.pop(name) for name in list(options) if name.startswith(_EXTENSION)}
    unknown = sorted(options.keys() - _OPTIONS.keys())
    if unknown or kind != "PEM":
        raise Usage(
            f"sasl.jaas.config: librdkafka cannot use {', '.join(unknown) or f'a truststore of type {kind}'}",
            f"leave clientId, clientSecret, scope, {_EXTENSION}... and ssl.truststore (type PEM)",
        )
    words = {_METHOD: "oidc", **{_OPTIONS[name]: value for name, value in options.items()}}
    if extensions:
        words[_EXTENSIONS] = ",".join(f"{name.removeprefix(_EXTENSION)}={value}" for name, value in extensions.items())
    return words


def to_java(rest: dict[str, str]) -> dict[str, str]:
    """In Java's words, out of either in `rest`. Raises Usage for what Spark's client cannot do."""
    given = _words(rest)
    if given.pop(_METHOD, None) != "oidc" or given.pop(_GRANT, "client_credentials") != "client_credentials":
        raise Usage(
            f"sasl.mechanism: for Spark's Kafka client {MECHANISM} means tokens by OAuth's client credentials",
            f"set {_METHOD}: oidc with {', '.join(_REQUIRED)}, or run on engine: python",
        )
    for name in _REQUIRED:
        if not given.get(name):
            raise Usage(f"{name} is missing: {MECHANISM} needs it", "set it")
    options = {**_VEIL, **{name: given[word] for name, word in _OPTIONS.items() if word in given}}
    if "https.ca.location" in given or "https.ca.pem" in given:
        options["ssl.truststore.type"] = "PEM"
    for extension in filter(None, given.get(_EXTENSIONS, "").split(",")):
        name, _, value = extension.partition("=")
        options[f"{_EXTENSION}{name.strip()}"] = value
    return {HANDLER_KEY: HANDLER, URL_KEY: given[URL_KEY], "sasl.jaas.config": jaas.written(MODULE, options)}


def _words(rest: dict[str, str]) -> dict[str, str]:
    """All that is about tokens, out of `rest` and in librdkafka's words."""
    given = {}
    if "sasl.jaas.config" in rest:
        module, options = jaas.read(rest.pop("sasl.jaas.config"))
        if module != MODULE:
            raise Usage(f"sasl.jaas.config: {module} does not go with {MECHANISM}", f"write {MODULE}")
        given = from_java(options, rest)
    for name in (_METHOD, _GRANT, _EXTENSIONS, URL_KEY, *_OPTIONS.values(), *_NEWER):
        if name in rest:
            word = _NEWER.get(name, name)
            if word in given:
                raise Usage(f"{word} is set twice, once by {name}", "remove one of the two")
            given[word] = rest.pop(name)
    return given
