"""The audit of a table in a PostgreSQL that speaks TLS only: both engines get in as libpq does, and no other way."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from audit.shop import Shop
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.findings import Audit
from fencepost.audit.request import EngineChoice
from fencepost.local import Stack
from fencepost.sinks.postgres import PostgresStore
from fencepost.sinks.postgres.table import make_table
from support.tls import TlsServer, needs_tls, tls_server

pytestmark = [pytest.mark.proof, pytest.mark.timeout(900), needs_tls]


@dataclass
class TlsShop(Shop):
    """Its table and its ledger are in the other server."""

    server: TlsServer | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.server
        self.settings = replace(self.settings, dsn=self.server.dsn)
        with closing(PostgresStore(self.settings)) as store:
            make_table(store.connection(), self.name, self.settings.columns)

    def sql(self, text: str, *values: object) -> list[Any]:
        assert self.server
        with closing(psycopg.connect(self.server.dsn, autocommit=True)) as connection:
            cursor = connection.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture(scope="module")
def server() -> Iterator[TlsServer]:
    with tls_server() as running:
        yield running


@pytest.fixture(scope="module")
def shop(stack: Stack, server: TlsServer) -> TlsShop:
    shop = TlsShop(stack, server=server)
    shop.send(range(40))
    shop.carry()
    shop.sql(f"CREATE ROLE certified LOGIN; GRANT SELECT ON {shop.name} TO certified")
    shop.sql(f"GRANT USAGE ON SCHEMA {shop.name}_own TO certified")
    shop.sql(f"GRANT SELECT ON ALL TABLES IN SCHEMA {shop.name}_own TO certified")
    return shop


@pytest.fixture(params=[EngineChoice.PYTHON, EngineChoice.SPARK], ids=["python", "spark"])
def engine(request: pytest.FixtureRequest) -> EngineChoice:
    return EngineChoice(request.param)


def audited(shop: TlsShop, engine: EngineChoice, dsn: str) -> Audit:
    return audit(shop.request(dsn=dsn, engine=engine))


def require_all(found: Audit, engine: EngineChoice) -> None:
    assert (found.verdict, found.engine) == (Verdict.HOLDS, engine.value), found.as_json(5)
    assert found.hops[-1].landed == 40


def test_the_string_says_it_all(shop: TlsShop, server: TlsServer, engine: EngineChoice) -> None:
    require_all(audited(shop, engine, server.dsn), engine)


def test_the_environment_says_it(
    shop: TlsShop, server: TlsServer, engine: EngineChoice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    monkeypatch.setenv("PGSSLROOTCERT", str(server.certificates.of("authority")))
    require_all(audited(shop, engine, server.place), engine)


def test_a_service_says_it(
    shop: TlsShop, server: TlsServer, engine: EngineChoice, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    services = tmp_path / "services.conf"
    services.write_text("[shop]\n" + "\n".join(server.dsn.split()) + "\n")
    monkeypatch.setenv("PGSERVICEFILE", str(services))
    require_all(audited(shop, engine, "service=shop"), engine)


def test_a_clients_certificate_lets_it_in(shop: TlsShop, server: TlsServer, engine: EngineChoice) -> None:
    own = f"sslcert={server.certificates.of('client')} sslkey={server.certificates.of('client', 'key')}"
    require_all(audited(shop, engine, f"{server.dsn} {own} user=certified passfile=/dev/null"), engine)


def test_an_address_beside_the_name_is_where_it_is_and_the_name_is_what_is_verified(
    shop: TlsShop, server: TlsServer, engine: EngineChoice
) -> None:
    require_all(audited(shop, engine, f"{server.dsn} hostaddr=127.0.0.1"), engine)


@pytest.mark.parametrize(
    "tls",
    [
        "sslmode=verify-full sslrootcert={stranger}",
        "sslmode=verify-ca sslrootcert={stranger}",
        "sslmode=verify-full sslrootcert={authority} host=127.0.0.1",  # a name that the certificate does not have
        "sslmode=disable",
    ],
)
def test_nobody_gets_in_by_another_way(shop: TlsShop, server: TlsServer, engine: EngineChoice, tls: str) -> None:
    files = {name: server.certificates.of(name) for name in ("authority", "stranger")}
    found = audited(shop, engine, f"{server.place} {tls.format(**files)}")
    assert (found.verdict, found.hops) == (Verdict.INCONCLUSIVE, [])
