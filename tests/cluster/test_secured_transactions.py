"""`fencepost txn` and the page over SASL_SSL, by the settings of every other command; a wrong one is told by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.secured import SecuredBroker
from fencepost.errors import Usage
from fencepost.kafka.config.kafka_python import kafka_python_settings
from fencepost.kafka.errors import AuthenticationFailed
from fencepost.kafka.layout import read_layout
from fencepost.kafka.open_transactions import list_transactions
from fencepost.kafka.wire import Wire
from web.serving import browser_of, served


@pytest.mark.parametrize("words", ["as_java", "as_librdkafka"])
def test_the_same_settings_let_it_in(broker: SecuredBroker, words: str) -> None:
    with Wire(getattr(broker, words)()) as wire:
        assert isinstance(list_transactions(wire), list)
        assert read_layout(wire).brokers


def test_a_wrong_password_is_told_as_such_and_not_shown(broker: SecuredBroker) -> None:
    kafka = {**broker.as_librdkafka(), "sasl.password": "canary-of-nobody"}
    with pytest.raises(AuthenticationFailed) as refused:
        Wire(kafka)
    assert "canary" not in str(refused.value)


def test_the_page_shows_no_secret(broker: SecuredBroker, tmp_path: Path) -> None:
    kafka = broker.as_java()
    file = tmp_path / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in kafka.items()))
    with served("--command-config", file, folder=tmp_path) as address, browser_of(address) as client:
        said = client.get("/").text + client.get("/api/overview").text + client.get("/topics/none").text
    assert kafka["sasl.jaas.config"].split('password="')[1].split('"')[0] not in said


@pytest.mark.parametrize(
    ("name", "value"),
    [("sasl.mechanism", "GSSAPI"), ("ssl.keystore.location", "x.p12"), ("sasl.oauthbearer.method", "oidc")],
)
def test_what_it_cannot_be_told_is_refused_by_name(name: str, value: str) -> None:
    kafka = {"bootstrap.servers": "a:1", "security.protocol": "SASL_SSL", name: value}
    if name.startswith("ssl.keystore"):
        kafka["ssl.keystore.type"] = "PKCS12"
    with pytest.raises(Usage, match=name.split(".", maxsplit=1)[0]):
        kafka_python_settings(kafka)
