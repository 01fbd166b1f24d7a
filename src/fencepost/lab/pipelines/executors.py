"""Executors of Spark as processes of their own, on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import psutil

from fencepost.errors import Unreachable
from fencepost.machine import process

HOME = "spark-home"
CLUSTER = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "600m"}


def spark_home(folder: Path) -> Mapping[str, str]:
    """pip's pyspark under a folder that executors may write into: what a driver's environment needs for them."""
    import pyspark

    home = folder / HOME
    if not home.exists():
        home.mkdir()
        for entry in Path(pyspark.__path__[0]).iterdir():
            (home / entry.name).symlink_to(entry)
    return {"SPARK_HOME": os.fspath(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}


def executor_of(worker: int) -> process.Identity:
    """The process whose task that worker does."""
    above = psutil.Process(worker).parents()
    executors = [parent.pid for parent in above if any("ExecutorBackend" in word for word in parent.cmdline())]
    found = [identity for identity in map(process.identify, executors) if identity]
    if not found:
        raise Unreachable(f"process {worker} is no executor's")
    return found[0]
