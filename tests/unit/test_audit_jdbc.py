"""What libpq was told reaches pgjdbc too, or is refused; secrets go as properties, never in the URL."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from fencepost.errors import Usage
from fencepost.sinks.postgres.jdbc import Server, translate

RSA = bytes.fromhex("3082013a020100300d06092a864886f70d0101010500")
EC = bytes.fromhex("308187020100301306072a8648ce3d020106082a8648ce3d030107")


def server(host: str = "db", database: str = "shop", address: str = "", **settings: str) -> Server:
    return Server(host, 5432, database, "me", "s3cret", settings, address)


def pem(path: Path, content: bytes, kind: str = "PRIVATE KEY") -> str:
    text = base64.encodebytes(content).decode()
    path.write_text(f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n")
    return str(path)


def test_the_url_has_the_place_and_nothing_else() -> None:
    url, properties = translate(server("::1", "a b/c?d&user=x"))
    assert url == "jdbc:postgresql://[::1]:5432/a%20b%2Fc%3Fd%26user%3Dx"
    assert (properties["user"], properties["password"], properties["sslmode"]) == ("me", "s3cret", "prefer")
    assert "s3cret" not in repr(server())


def test_what_the_environment_or_a_service_sets_is_carried_over() -> None:
    _, properties = translate(
        server(options="-c search_path=shop", channel_binding="require", connect_timeout="7", sslmode="require")
    )
    assert {
        "options": "-c search_path=shop",
        "channelBinding": "require",
        "connectTimeout": "7",
        "sslmode": "require",
    }.items() <= properties.items()


def test_authorities_are_asked_for_as_libpq_does() -> None:
    _, verified = translate(server(sslmode="require", sslrootcert="/etc/ca.pem"))
    assert (verified["sslmode"], verified["sslrootcert"]) == ("verify-ca", "/etc/ca.pem")
    _, system = translate(server(sslmode="verify-full", sslrootcert="system"))
    assert (system["sslmode"], system["sslfactory"]) == ("verify-full", "org.postgresql.ssl.DefaultJavaSSLFactory")
    _, usual = translate(server(sslmode="verify-full"))
    assert usual["sslrootcert"].endswith("/.postgresql/root.crt")


@pytest.mark.parametrize(("content", "algorithm"), [(RSA, "RSA"), (EC, "EC")])
def test_a_clients_certificate_goes_along_with_the_kind_of_its_key(
    tmp_path: Path, content: bytes, algorithm: str
) -> None:
    certificate, key = pem(tmp_path / "client.crt", b"x", "CERTIFICATE"), pem(tmp_path / "client.key", content)
    _, properties = translate(server(sslmode="verify-full", sslcert=certificate, sslkey=key))
    assert (properties["sslcert"], properties["sslkey"]) == (certificate, key)
    assert properties["pemKeyAlgorithm"] == algorithm
    assert "sslkey" not in translate(server(sslmode="disable", sslcert=certificate, sslkey=key))[1]


@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "EC PRIVATE KEY", "ENCRYPTED PRIVATE KEY"])
def test_a_key_that_jdbc_does_not_take_is_refused_with_the_command_that_makes_one(tmp_path: Path, kind: str) -> None:
    certificate, key = pem(tmp_path / "c", b"x", "CERTIFICATE"), pem(tmp_path / "k", RSA, kind)
    with pytest.raises(Usage, match="PKCS #8") as refused:
        translate(server(sslmode="require", sslcert=certificate, sslkey=key))
    assert f"openssl pkcs8 -topk8 -nocrypt -in {key}" in (refused.value.remedy or "")


@pytest.mark.parametrize("host", ["/var/run/postgresql", "@abstract", ""])
def test_a_unix_socket_is_refused(host: str) -> None:
    with pytest.raises(Usage, match="unix sockets"):
        translate(server(host))


def test_what_jdbc_does_not_have_is_refused() -> None:
    with pytest.raises(Usage, match="sslcrl"):
        translate(server(sslcrl="/etc/revoked.pem"))
    translate(server(ssl_min_protocol_version="TLSv1.2"))


def test_an_address_is_used_where_one_was_given_unless_the_certificate_has_the_name() -> None:
    given = {"hostaddr": "10.0.0.7"}
    assert "//10.0.0.7:" in translate(server(address="10.0.0.7", **given))[0]
    assert "//db:" in translate(server(address="10.0.0.7", sslmode="verify-full", **given))[0]
