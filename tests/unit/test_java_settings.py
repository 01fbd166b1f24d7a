"""One `kafka:` block for two clients: what Spark's, which is Java's, is told of it, and what it cannot be told."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.errors import Usage
from fencepost.kafka.config.java import java_settings
from fencepost.kafka.config.settings import librdkafka_settings

SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAVA = {
    "bootstrap.servers": "a:1",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "SCRAM-SHA-512",
    "sasl.jaas.config": f'{SCRAM} required username="alice" password="x";',
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": "/ca.pem",
    "ssl.endpoint.identification.algorithm": "",
}
LIBRDKAFKA = {
    "bootstrap.servers": "a:1",
    "security.protocol": "sasl_ssl",
    "sasl.mechanisms": "SCRAM-SHA-512",
    "sasl.username": "alice",
    "sasl.password": "x",
    "ssl.ca.location": "/ca.pem",
    "ssl.endpoint.identification.algorithm": "none",
}


def test_both_ways_of_writing_it_become_the_same_for_spark() -> None:
    assert java_settings(LIBRDKAFKA) == JAVA
    assert java_settings(JAVA) == JAVA


def test_both_ways_of_writing_it_become_the_same_for_librdkafka() -> None:
    same_names = {"sasl.mechanism": "SCRAM-SHA-512", "security.protocol": "SASL_SSL"}
    expected = {key: value for key, value in LIBRDKAFKA.items() if key != "sasl.mechanisms"} | same_names
    assert librdkafka_settings(JAVA) == expected
    assert librdkafka_settings(LIBRDKAFKA) == LIBRDKAFKA


@pytest.mark.parametrize("password", ['a"b\\c', "a;b='c'", " ", "ä\nb", "\\n", ""])
def test_any_password_survives_the_way_through_javas_line(password: str) -> None:
    line = java_settings({"sasl.mechanism": "PLAIN", "sasl.username": "u", "sasl.password": password})
    assert line["sasl.jaas.config"].startswith(f"{PLAIN} required ")
    assert librdkafka_settings(line)["sasl.password"] == password


def test_certificates_may_be_text() -> None:
    given = {"ssl.ca.pem": "CA", "ssl.key.pem": "KEY", "ssl.certificate.pem": "CHAIN"}
    assert java_settings(given) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "KEY",
        "ssl.keystore.certificate.chain": "CHAIN",
    }


def test_our_own_certificate_and_key_are_one_file() -> None:
    given = {"ssl.certificate.location": "/me.pem", "ssl.key.location": "/me.pem", "ssl.key.password": "x"}
    assert java_settings(given) == {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/me.pem",
        "ssl.key.password": "x",
    }


def test_a_ticket_of_kerberos_becomes_javas_line() -> None:
    given = {"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "me@X", "sasl.kerberos.service.name": "kafka"}
    line = 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab="true" storeKey="true" keyTab="/k"'
    assert java_settings(given) == {
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{line} principal="me@X";',
    }


OAUTH = "org.apache.kafka.common.security.oauthbearer"
TOKENS_IN_JAVA = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.login.callback.handler.class": f"{OAUTH}.OAuthBearerLoginCallbackHandler",
    "sasl.oauthbearer.token.endpoint.url": "https://a/token",
    "sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required password="none" clientId="me" clientSecret="a\\"b" '
    'scope="s" '
    'ssl.truststore.location="/ca.pem" ssl.truststore.type="PEM" extension_one="1" extension_two="2";',
}
TOKENS = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.token.endpoint.url": "https://a/token",
    "sasl.oauthbearer.client.id": "me",
    "sasl.oauthbearer.client.secret": 'a"b',
    "sasl.oauthbearer.scope": "s",
    "sasl.oauthbearer.extensions": "one=1,two=2",
    "https.ca.location": "/ca.pem",
}


def test_where_tokens_come_from_is_translated_both_ways() -> None:
    assert java_settings(TOKENS) == TOKENS_IN_JAVA
    assert java_settings(TOKENS_IN_JAVA) == TOKENS_IN_JAVA
    assert librdkafka_settings(TOKENS_IN_JAVA) == TOKENS
    assert librdkafka_settings(TOKENS) == TOKENS


def test_what_spark_logs_of_the_line_shows_no_secret() -> None:
    line = java_settings({**TOKENS, "sasl.oauthbearer.client.secret": "hunter2"})["sasl.jaas.config"]
    logged = re.sub('password=".*"', "", line)  # as its KafkaRedactionUtil does
    assert "hunter2" in line
    assert "hunter2" not in logged


def test_kafkas_newer_words_for_tokens_do_as_well() -> None:
    newer = {name.replace("bearer.client.", "bearer.client.credentials.client."): at for name, at in TOKENS.items()}
    assert newer != TOKENS
    assert java_settings(newer) == TOKENS_IN_JAVA


@pytest.mark.parametrize("way", [java_settings, librdkafka_settings])
@pytest.mark.parametrize(
    ("instead", "key"),
    [
        ({"sasl.login.callback.handler.class": "com.example.Own"}, "sasl.login.callback.handler.class"),
        ({"sasl.jaas.config": f'{OAUTH}.OAuthBearerLoginModule required own="hunter2";'}, "sasl.jaas.config"),
    ],
)
def test_another_way_to_tokens_is_refused(
    way: Callable[[dict[str, str]], object], instead: dict[str, str], key: str
) -> None:
    with pytest.raises(Usage) as refusal:
        way({**TOKENS_IN_JAVA, **instead})
    assert refusal.value.message.startswith(key)
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(
    "instead",
    [
        {"sasl.oauthbearer.method": "default"},
        {"sasl.oauthbearer.grant.type": "urn:ietf:params:oauth:grant-type:jwt-bearer"},
        {"sasl.oauthbearer.client.secret": ""},
        {"sasl.oauthbearer.assertion.file": "/a"},
    ],
)
def test_what_only_librdkafka_can_do_for_a_token_is_refused_on_spark(instead: dict[str, str]) -> None:
    with pytest.raises(Usage) as refusal:
        java_settings({**TOKENS, **instead})
    assert refusal.value.remedy


def test_what_is_not_about_security_goes_along() -> None:
    given = {"fetch.wait.max.ms": "5", "queued.min.messages": "7", "client.id": "x"}
    assert java_settings(given) == {"fetch.max.wait.ms": "5", "queued.min.messages": "7", "client.id": "x"}


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"enable.ssl.certificate.verification": "false"}, "enable.ssl.certificate.verification"),
        ({"ssl.certificate.location": "/a", "ssl.key.location": "/b"}, "ssl.key.location"),
        ({"ssl.crl.location": "/a"}, "ssl.crl.location"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.client.secret": "hunter2"}, "OAUTHBEARER"),
        ({"sasl.username": "u", "sasl.password": "hunter2"}, "sasl.username"),  # which mechanism?
        ({"sasl.mechanism": "PLAIN", "sasl.mechanisms": "PLAIN"}, "sasl.mechanism is set twice"),
        ({**JAVA, "sasl.username": "u", "sasl.password": "hunter2"}, "sasl.jaas.config is set twice"),
        ({**JAVA, "ssl.ca.location": "/ca.pem"}, "ssl.truststore.type is set twice"),
    ],
)
def test_what_says_whom_to_trust_is_never_left_out_silently(given: dict[str, str], key: str) -> None:
    with pytest.raises(Usage) as refusal:
        java_settings(given)
    assert key in refusal.value.message
    assert refusal.value.remedy
    assert "hunter2" not in str(refusal.value)


def test_a_folder_of_certificates_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Usage, match=r"ssl\.ca\.location"):
        java_settings({"ssl.ca.location": str(tmp_path)})
