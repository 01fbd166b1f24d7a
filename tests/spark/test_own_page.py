"""docs/your-own-stream.md is true: its script runs as it stands, twice, and a pipeline file answers for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import fencepost
from fencepost.machine import cache
from fencepost.machine.java import find, home_for_spark
from spark.flows import Flow

PAGE = (Path(__file__).parents[2] / "docs" / "your-own-stream.md").read_text()


def script(flow: Flow) -> str:
    """With a topic and a table of the test's own."""
    found = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1].replace('"orders"', f'"{flow.name}"').replace('"shop"', f'"{flow.name}"')


@pytest.mark.timeout(600)
@pytest.mark.proof
@pytest.mark.parametrize("runs", [1, 2])
def test_the_script_lands_once_and_its_pipeline_is_audited(flow: Flow, runs: int) -> None:
    assert len([line for line in script(flow).splitlines() if line]) == 12
    for run in range(runs):
        flow.produce(range(100 * run, 100 * run + 100))
        _runs(flow)
        (flow.folder / "checkpoint").rename(flow.folder / f"lost-{run}")
    rows = f"SELECT count(*), count(DISTINCT (_partition, _offset)) FROM {flow.name}"
    assert flow.sql(rows) == [(100 * runs, 100 * runs)]
    pipeline = {
        "name": flow.name,
        "guarantee": "exactly-once",
        "kafka": flow.kafka,
        "source": {"topic": flow.name},
        "sink": flow.sink_part({}),
    }
    assert fencepost.audit(pipeline).verdict == "holds"
    assert fencepost.receipt(pipeline, 0, 7, check=True).fate == "landed"


@pytest.mark.timeout(600)
@pytest.mark.proof
def test_spark_submit_is_told_which_jars_to_bring_and_then_it_lands(flow: Flow) -> None:
    flow.produce(range(100))
    (flow.folder / "job.py").write_text(script(flow))
    bare = _submitted(flow)
    (jars,) = set(re.findall(r"spark-submit (--jars [^ ;]+);", bare.stdout)) or {""}  # where Spark puts its stderr
    assert bare.returncode
    assert jars, bare.stdout[-4000:]
    done = _submitted(flow, *jars.split())
    assert done.returncode == 0, done.stderr[-4000:]
    assert flow.sql(f"SELECT count(*), count(DISTINCT (_partition, _offset)) FROM {flow.name}") == [(100, 100)]


def _submitted(flow: Flow, *words: str) -> subprocess.CompletedProcess[str]:
    program = Path(pyspark.__path__[0]) / "bin" / "spark-submit"
    python = dict.fromkeys(("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"), sys.executable)
    java = {"JAVA_HOME": str(home_for_spark(find(), cache.folder()))}
    env = {**os.environ, **python, **java, "DSN": flow.stack.dsn, "KAFKA": flow.stack.bootstrap_servers}
    argv = [str(program), *words, "job.py"]
    return subprocess.run(argv, cwd=flow.folder, env=env, capture_output=True, text=True, timeout=300, check=False)


def _runs(flow: Flow) -> None:
    env = {**os.environ, "DSN": flow.stack.dsn, "KAFKA": flow.stack.bootstrap_servers}
    argv = [sys.executable, "-c", script(flow)]
    done = subprocess.run(argv, cwd=flow.folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
