"""Kafka's settings, as Java writes them, turned into librdkafka's; what cannot be turned is refused by name."""

from __future__ import annotations

import ctypes
from pathlib import Path

import confluent_kafka.cimpl
import pytest
from confluent_kafka.admin import AdminClient

from fencepost.errors import Usage
from fencepost.kafka.config.librdkafka import SETTINGS
from fencepost.kafka.config.settings import librdkafka_settings

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def properties_of_the_library(folder: Path) -> set[str]:
    """The names that the installed librdkafka prints of itself, without those that take code or a structure."""
    library, c = ctypes.CDLL(confluent_kafka.cimpl.__file__), ctypes.CDLL(None)
    c.fopen.restype = ctypes.c_void_p
    file = ctypes.c_void_p(c.fopen(str(folder / "properties").encode(), b"w"))
    library.rd_kafka_conf_properties_show(file)
    c.fclose(file)
    rows = [line.split("|") for line in (folder / "properties").read_text().splitlines()]
    names = {row[0].strip() for row in rows if len(row) > 2 and row[0][0].islower()}
    structures = {
        "builtin.features", "default_topic_conf", "enabled_events", "interceptors", "internal.termination.signal",
        "log.queue", "msg_order_cmp", "opaque", "ssl_ca", "ssl_certificate", "ssl_engine_callback_data", "ssl_key",
    }  # fmt: skip
    return {name for name in names if not name.endswith("_cb")} - structures


def test_the_list_of_names_is_that_of_the_installed_library(tmp_path: Path) -> None:
    assert properties_of_the_library(tmp_path) == SETTINGS


def test_common_names_stay_as_they_are() -> None:
    settings = {"bootstrap.servers": "a:1, b:2", "security.protocol": "SASL_SSL", "client.id": "x", "acks": "all"}
    assert librdkafka_settings(settings) == settings


def test_other_names_are_translated() -> None:
    assert librdkafka_settings({"receive.buffer.bytes": "1", "fetch.max.wait.ms": "2"}) == {
        "socket.receive.buffer.bytes": "1",
        "fetch.wait.max.ms": "2",
    }


@pytest.mark.parametrize(
    ("config", "user", "password"),
    [
        (f'{PLAIN} required username="alice" password="alice-secret";', "alice", "alice-secret"),
        (f"{SCRAM} required username='al ice'\n password='a;=\"b' ;", "al ice", 'a;="b'),
        (f'{PLAIN} required\tusername = alice password = "a\\"b\\\\c" ; ', "alice", 'a"b\\c'),
        (f'{PLAIN} required username="" password="";', "", ""),
    ],
)
def test_user_and_password_come_out_of_the_jaas_line(config: str, user: str, password: str) -> None:
    assert librdkafka_settings({"sasl.jaas.config": config}) == {"sasl.username": user, "sasl.password": password}


@pytest.mark.parametrize(
    "config",
    [
        f'{PLAIN} required username="u" password="hunter2"',
        f'{PLAIN} username="u" password="hunter2";',
        f'{PLAIN} required username="u" password="hunter2;',
        f'{PLAIN} required username="u" password="hunter2" tokenauth=true;',
        f'{PLAIN} required password="hunter2";',
        'com.sun.security.auth.module.Krb5LoginModule required principal="hunter2";',
        'com.example.Own required username="u" password="hunter2";',
        "hunter2",
    ],
)
def test_another_jaas_line_is_refused_without_showing_it(config: str) -> None:
    with pytest.raises(Usage, match=r"sasl\.jaas\.config") as refusal:
        librdkafka_settings({"sasl.jaas.config": config})
    assert refusal.value.remedy
    assert "hunter2" not in str(refusal.value)


def test_a_user_given_twice_is_refused() -> None:
    config = f'{PLAIN} required username="alice" password="x";'
    with pytest.raises(Usage, match=r"sasl\.username is set twice"):
        librdkafka_settings({"sasl.jaas.config": config, "sasl.username": "bob"})


def test_pem_stores_become_files_of_openssl() -> None:
    settings = {
        "ssl.truststore.type": "pem",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": "/me.pem",
        "ssl.key.password": "x",
    }
    assert librdkafka_settings(settings) == {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": "/me.pem",
        "ssl.key.location": "/me.pem",
        "ssl.key.password": "x",
    }


def test_pem_text_is_taken_as_it_is() -> None:
    settings = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": "KEY",
        "ssl.keystore.certificate.chain": "CHAIN",
    }
    assert librdkafka_settings(settings) == {"ssl.ca.pem": "CA", "ssl.key.pem": "KEY", "ssl.certificate.pem": "CHAIN"}


def test_a_pkcs12_keystore_can_be_read() -> None:
    settings = {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"}
    assert librdkafka_settings({**settings, "ssl.keystore.type": "PKCS12"}) == settings


@pytest.mark.parametrize(
    ("settings", "key", "remedy"),
    [
        ({"ssl.truststore.location": "/t.jks"}, "ssl.truststore.location", "keytool -list -rfc -keystore /t.jks"),
        (
            {
                "ssl.truststore.location": "/t.p12",
                "ssl.truststore.type": "PKCS12",
                "ssl.truststore.password": "hunter2",
            },
            "ssl.truststore.location",
            "ssl.truststore.type=PEM",
        ),
        ({"ssl.keystore.location": "/k.jks"}, "ssl.keystore.location", "ssl.keystore.type=PKCS12"),
        (
            {"ssl.truststore.location": "/t", "ssl.truststore.type": "PEM", "ssl.truststore.password": "hunter2"},
            "ssl.truststore.password",
            "remove it",
        ),
        (
            {"ssl.keystore.location": "/t", "ssl.keystore.type": "PEM", "ssl.keystore.password": "hunter2"},
            "ssl.keystore.password",
            "ssl.key.password",
        ),
        ({"ssl.enabled.protocols": "TLSv1.2"}, "ssl.enabled.protocols", "remove it"),
        ({"sasl.login.callback.handler.class": "X"}, "sasl.login.callback.handler.class", "oidc"),
        ({"sasl.usrname": "hunter2"}, "sasl.usrname", "did you mean sasl.username?"),
        ({"zzz": "hunter2"}, "zzz", "remove it"),
        ({"error_cb": "x"}, "error_cb", "remove it"),
    ],
)
def test_what_cannot_be_mapped_is_refused_with_a_remedy(settings: dict[str, str], key: str, remedy: str) -> None:
    with pytest.raises(Usage) as refusal:
        librdkafka_settings(settings)
    assert refusal.value.message.startswith(f"{key}:")
    assert remedy in refusal.value.remedy
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize(("java", "librdkafka"), [("", "none"), ("HTTPS", "https"), ("https", "https")])
def test_the_check_of_the_servers_name(java: str, librdkafka: str) -> None:
    key = "ssl.endpoint.identification.algorithm"
    assert librdkafka_settings({key: java}) == {key: librdkafka}


@pytest.mark.parametrize("servers", ["a:9092", "a:1,b:2", "[::1]:9092", "PLAINTEXT://a.example:9092", " a:1 , b:2 "])
def test_an_address_is_host_and_port(servers: str) -> None:
    assert librdkafka_settings({"bootstrap.servers": servers}) == {"bootstrap.servers": servers}


@pytest.mark.parametrize("servers", ["", "a", "a:", ":9092", "a:0", "a:65536", "a:9092;b:9092", "a b:9092", "a:1,"])
def test_anything_else_is_no_address(servers: str) -> None:
    with pytest.raises(Usage, match=r"bootstrap\.servers"):
        librdkafka_settings({"bootstrap.servers": servers})


def test_the_library_accepts_the_outcome() -> None:
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="alice" password="x";',
        "ssl.endpoint.identification.algorithm": "",
        "receive.buffer.bytes": "65536",
    }
    assert AdminClient(dict(librdkafka_settings(settings))) is not None  # it raises where it does not
