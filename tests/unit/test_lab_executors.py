"""Executors of Spark in processes of their own: where they may write, and which one does a worker's task."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.errors import Unreachable
from fencepost.lab.pipelines.executors import executor_of, spark_home

PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print(child.pid, flush=True)
child.wait()
"""


def test_a_home_that_executors_may_write_into_has_all_of_spark(tmp_path: Path) -> None:
    home = Path(spark_home(tmp_path)["SPARK_HOME"])
    assert os.access(home, os.W_OK)
    assert (home / "jars").is_dir()
    assert spark_home(tmp_path)["SPARK_HOME"] == str(home)


def test_an_executor_is_found_above_its_worker() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, "ExecutorBackend"], stdout=subprocess.PIPE) as executor:
        assert executor.stdout is not None
        worker = int(executor.stdout.readline())
        try:
            assert executor_of(worker).pid == executor.pid
        finally:
            os.kill(worker, 9)


def test_a_process_that_no_executor_started_is_told() -> None:
    with pytest.raises(Unreachable, match="no executor"):
        executor_of(os.getpid())
