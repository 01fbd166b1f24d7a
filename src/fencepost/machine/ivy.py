"""Ivy, as it ships inside pyspark: it knows repositories and mirrors, so that we need not."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from xml.etree import ElementTree

from fencepost.errors import Unreachable, Usage
from fencepost.machine import java, process
from fencepost.machine.progress import Progress

Configuration = Literal["broker", "spark", "delta-spark", "iceberg-spark", "iceberg-s3", "tools"]
CONFIGURATIONS: tuple[Configuration, ...] = (
    "broker",
    "spark",
    "delta-spark",
    "iceberg-spark",
)  # what is needed to run; tools are for comparisons, and S3 for who has it
ALL: tuple[Configuration, ...] = (*CONFIGURATIONS, "iceberg-s3", "tools")
SETTINGS_VARIABLE = "FENCEPOST_IVY_SETTINGS"
MIRROR = f"for a mirror, put an ivysettings.xml into ~/.ivy2 or name one in {SETTINGS_VARIABLE}"

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Pin:
    """One jar at one version."""

    organisation: str
    module: str
    revision: str
    configuration: Configuration

    @property
    def file(self) -> str:
        return f"{self.organisation}--{self.module}-{self.revision}.jar"


def pins() -> list[Pin]:
    """Everything that `ivy.xml` names."""
    found = []
    for entry in ElementTree.parse(_HERE / "ivy.xml").iter("dependency"):  # noqa: S314  (a file of this package)
        (configuration,) = (name for name in ALL if name == entry.attrib["conf"])
        found.append(Pin(entry.attrib["org"], entry.attrib["name"], entry.attrib["rev"], configuration))
    return found


def retrieve(names: Collection[str], folder: Path, progress: Progress) -> Path:
    """Fetch the named jars into a folder below `folder`. What Ivy had got before it was interrupted is used."""
    jars, ivy_cache, log = folder / "jars", folder / "ivy", folder / "ivy.log"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(jars, ignore_errors=True)
    log.unlink(missing_ok=True)
    argv = [
        str(java.find().executable), "-jar", str(_program()), "-settings", str(_settings()), "-cache", str(ivy_cache),
        "-ivy", str(_shopping_list(names, folder)), "-confs", *ALL,
        "-retrieve", f"{jars}/[organisation]--[artifact]-[revision].[ext]",
    ]  # fmt: skip
    program = process.Program(argv, folder=folder, log=log, inherits=True)  # proxies and the like
    with progress.bar("fetching jars", len(names)) as advance, process.finishing(program) as running:
        while not process.until(lambda: running.poll() is not None, 0.2):
            advance(sum(1 for _ in ivy_cache.rglob("*.jar")))
    if running.returncode != 0:
        raise Unreachable(f"the jars could not be fetched (see {log})", f"is a repository in reach? {MIRROR}")
    return jars


def _program() -> Path:
    spec = importlib.util.find_spec("pyspark")  # found, not imported: that takes seconds
    if spec is None or spec.origin is None:
        raise Usage(
            "pyspark is not installed, and the jars are fetched by the Ivy inside it", "pip install 'fencepost[local]'"
        )
    found = sorted((Path(spec.origin).parent / "jars").glob("ivy-*.jar"))
    if not found:
        raise Usage(
            f"no ivy-*.jar beside {spec.origin}", "install pyspark from its wheel: pip install 'fencepost[local]'"
        )
    return found[-1]


def _settings() -> Path:
    """The user's own settings, where there are some."""
    if named := os.environ.get(SETTINGS_VARIABLE):
        if not Path(named).is_file():
            raise Usage(f"{SETTINGS_VARIABLE} names {named}, which is not a file", "name an ivysettings.xml")
        return Path(named).absolute()
    own = Path(os.environ.get("HOME", "/")) / ".ivy2" / "ivysettings.xml"
    return own if own.is_file() else _HERE / "ivysettings.xml"


def _shopping_list(names: Collection[str], folder: Path) -> Path:
    """`ivy.xml` with only what is missing."""
    tree = ElementTree.parse(_HERE / "ivy.xml")  # noqa: S314
    (dependencies,) = tree.iter("dependencies")
    wanted = {(pin.organisation, pin.module, pin.revision) for pin in pins() if pin.file in names}
    for entry in list(dependencies):
        if (entry.attrib["org"], entry.attrib["name"], entry.attrib["rev"]) not in wanted:
            dependencies.remove(entry)
    tree.write(folder / "ivy.xml")
    return folder / "ivy.xml"
