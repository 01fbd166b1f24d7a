"""What the docs say of other tools, tried with them: Kafka's VerifiableProducer, and kcat."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from audit.shop import Shop
from consuming.relays import QUICK
from fencepost.audit.audit import audit
from fencepost.audit.compare import Verdict
from fencepost.audit.receipt import Fate, receipt
from fencepost.audit.request import of_pipeline
from fencepost.errors import FencepostError
from fencepost.local import Stack
from fencepost.machine import jars, java
from fencepost.spec import load
from spark.flows import Flow

pytestmark = pytest.mark.proof


@pytest.fixture
def verifiable() -> list[str]:
    """Kafka's own tool, from the jars that `ivy.xml` pins."""
    try:
        classpath = ":".join(map(str, jars.fetch("broker", "tools")))
    except FencepostError as error:
        pytest.skip(f"Kafka's tools cannot be had: {error}")
    return [str(java.find().executable), "-cp", classpath, "org.apache.kafka.tools.VerifiableProducer"]


@pytest.fixture
def kcat() -> str:
    found = shutil.which("kcat")
    if found is None:
        pytest.skip("kcat is not installed")
    return found


def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=120, check=False)


def audited(*words: str) -> tuple[int, dict[str, Any]]:
    done = run(sys.executable, "-m", "fencepost", "audit", *words, "--format", "json")
    assert done.stdout, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return done.returncode, found


def test_what_verifiable_producer_prints_is_a_journal(stack: Stack, verifiable: list[str], tmp_path: Path) -> None:
    shop, journals = Shop(stack), []
    for turn in range(2):  # both send the values 0 to 299
        done = run(
            *verifiable, "--bootstrap-server", stack.bootstrap_servers, "--topic", shop.name, "--max-messages", "300"
        )
        assert done.returncode == 0, done.stderr
        journals.append(tmp_path / f"sent-{turn}.jsonl")
        journals[-1].write_text(done.stdout)
        assert '"name":"tool_data"' in done.stdout.splitlines()[-1]
    words = ["--bootstrap-server", stack.bootstrap_servers, "--topic", shop.name]
    given = [word for journal in journals for word in ("--journal", str(journal))]
    code, found = audited(*words, *given)
    assert (code, found["verdict"], found["expected"], found["landed"]) == (0, "holds", 600, 600), found
    code, found = audited(*words, *given[:2])
    assert (code, found["anomalies"]) == (1, {"D1": 300})  # of the other run nothing is known
    last = journals[0].read_text().replace('"value":"7"', '"value":"7000"', 1)
    journals[0].write_text(last)
    code, found = audited(*words, *given)
    assert (code, found["anomalies"]) == (1, {"D1": 1, "L1": 1})


def test_what_kcat_sends_is_carried_and_compared_by_place(stack: Stack, kcat: str, tmp_path: Path) -> None:
    flow = Flow(stack, tmp_path)
    flow.kafka |= QUICK
    lines = "".join(f"k{number % 5}:order {number}\n" for number in range(50))
    sent = run(kcat, "-b", stack.bootstrap_servers, "-t", flow.name, "-P", "-K", ":", stdin=lines)
    assert sent.returncode == 0, sent.stderr
    declared: dict[str, Any] = {
        "engine": "python",
        "transform": None,
        "source": {"topic": flow.name, "value": "string"},
    }
    assert flow.run(**declared).rows == 50
    spec = load(flow.declare(**declared))
    assert audit(of_pipeline(spec)).verdict is Verdict.HOLDS
    ((partition, offset),) = flow.sql(f"SELECT _partition, _offset FROM {flow.name} WHERE value = 'order 17'")
    assert receipt(spec, partition, offset, check=True).fate is Fate.LANDED
    flow.sql(f"DELETE FROM {flow.name} WHERE value = 'order 17'")
    found = audit(of_pipeline(spec))
    assert [(one.code.value, one.partition, one.offset) for one in found.findings] == [("L2", partition, offset)]


def test_between_topics_kcats_records_need_an_id(stack: Stack, kcat: str) -> None:
    here, there = Shop(stack), Shop(stack)
    words = ["--bootstrap-server", stack.bootstrap_servers, "--topic", here.name, "--sink", f"topic:{there.name}"]
    for shop in (here, there):
        for number in range(3):
            id_ = f"fencepost.id=order-{number}"
            assert run(kcat, "-b", stack.bootstrap_servers, "-t", shop.name, "-P", "-H", id_, stdin="x").returncode == 0
    assert audited(*words)[0] == 0
    assert run(kcat, "-b", stack.bootstrap_servers, "-t", here.name, "-P", stdin="nameless").returncode == 0
    code, found = audited(*words)
    assert (code, found["verdict"], found["anomalies"]) == (5, "inconclusive", {})
