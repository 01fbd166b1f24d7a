"""Iceberg tables whose files are in S3, on a real server of that kind; the catalog is in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from fencepost.lab.crash import standing, visits
from fencepost.lab.proxy import Action, Direction, Protocol, Proxy, Rule, Statement
from fencepost.local import Stack
from spark.drivers import pipeline_process
from spark.iceberg_flow import IcebergFlow
from support.commands import here
from support.object_store import BUCKET, SECRET, s3_server

pytestmark = [pytest.mark.proof, pytest.mark.timeout(1800)]


class InS3(IcebergFlow):
    """The catalog's connections may go through a proxy."""

    dsn: str | None = None

    @property
    def options(self) -> dict[str, Any]:
        return {
            "table": f"db.{self.name}",
            "warehouse": f"s3://{BUCKET}/warehouse",
            "dsn": self.dsn or self.stack.dsn,
        }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("s3") / "buckets"
    with s3_server(folder) as environment, pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield folder / BUCKET


@pytest.fixture
def lake(stack: Stack, tmp_path: Path, server: Path) -> InS3:
    return InS3(stack, tmp_path)


def test_rows_land_once_and_every_command_reads_them(
    lake: InS3, server: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lake.produce(range(100))
    assert lake.run().rows == 100
    lake.produce(range(100, 150))
    assert lake.run().rows == 50
    lake.assert_exact(150)
    assert list(server.rglob("*.parquet"))
    spec = lake.declare()
    said = [
        here(*words, "--spec", spec) for words in (["plan"], ["status"], ["peek"], ["audit"], ["positions", "show"])
    ]
    assert [one.code for one in said] == [0] * 5, said
    seen = capfd.readouterr()
    assert SECRET not in "".join([seen.out, seen.err, *(one.out + one.err for one in said)])
    assert here("positions", "set", "--spec", spec, "--to", "earliest", "--yes").code == 0
    assert lake.run().rows == 150


def test_a_driver_killed_and_one_that_stands_still_leave_each_row_once(lake: InS3, tmp_path: Path) -> None:
    lake.produce(range(2_000))
    killed, stopped = tmp_path / "killed", tmp_path / "stopped"
    with pipeline_process(lake.declare(), "--once", "--crash", "advanced", "1", "stop", str(killed)) as driver:
        driver.wait_until(lambda: visits(killed), "it comes by")
        driver.kill()
    with pipeline_process(lake.declare(), "--crash", "advanced", "1", "stop", str(stopped)) as driver:
        driver.wait_until(lambda: standing(stopped), "it stands still")
        driver.stop()
        assert lake.run().rows == 2_000
        driver.go_on()
        assert driver.ended() == 4, driver.told()
    lake.assert_exact(2_000)


@pytest.mark.parametrize("landed", [True, False], ids=["answer-lost", "never-arrived"])
def test_a_commit_without_an_answer_is_decided_by_the_catalog(lake: InS3, landed: bool) -> None:
    lake.produce(range(100))
    lake.run()
    lake.produce(range(100, 200))
    where = conninfo_to_dict(lake.stack.dsn)
    with Proxy() as proxy:
        port = proxy.listen("db", target=(str(where["host"]), int(str(where["port"]))), protocol=Protocol.POSTGRES)
        lake.dsn = make_conninfo(lake.stack.dsn, port=port)
        direction = Direction.RESPONSE if landed else Direction.REQUEST
        update = Statement("UPDATE")
        rule = proxy.add(Rule(action=Action.RESET, direction=direction, request=update, skip=1, count=1))
        assert lake.run().rows == 100
        assert proxy.witness(rule).hits == 1
    lake.dsn = None
    lake.assert_exact(200)
