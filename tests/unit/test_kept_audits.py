"""The last audit of a pipeline, kept and read back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fencepost.audit.findings import Audit, Finding, Hop
from fencepost.audit.kept import KeptRounds, keep, kept
from fencepost.errors import Usage
from fencepost.guarantee import Anomaly, Guarantee


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path))
    return tmp_path / "audits"


def audit() -> Audit:
    hop = Hop("log to sink", "place", expected=3, landed=2)
    hop.add([Finding(Anomaly.LOST_BEFORE_SINK, topic="t", partition=0, offset=7)])
    return Audit(
        Guarantee.EXACTLY_ONCE, "python", [hop], [{"topic": "t", "partition": 0, "from": 0, "to": 9, "end": 9}]
    )


def test_it_is_found_by_its_pipeline_and_cluster(folder: Path) -> None:
    keep(audit(), "shop", "a:1,b:2", ["t"])
    found = kept("shop", "b:2, a:1")
    assert found is not None
    assert (found.found["verdict"], found.found["lost"], found.topics) == ("broken", 1, ["t"])
    assert [one.offset for one in found.findings] == [7]
    assert kept("shop", "c:3") is None
    assert kept("other", "a:1,b:2") is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"at": "x"}', "[" * 100_000, "\xff", json.dumps({"at": "2026-01-01", "found": []})]
)
def test_a_file_that_is_none_is_no_audit(folder: Path, text: str) -> None:
    keep(audit(), "shop", "a:1", ["t"])
    (file,) = folder.iterdir()
    file.write_bytes(text.encode("latin-1"))
    assert kept("shop", "a:1") is None


@pytest.mark.parametrize(
    "part",
    [
        {"findings": "x"},
        {"findings": [3]},
        {"findings": [{"code": "L2", "offset": 1}]},
        {"verdict": ["holds"]},
        {"landed": "many"},
        {"partitions": [{"topic": "t", "partition": 0, "from": "0", "to": 9}]},
    ],
    ids=str,
)
def test_a_file_with_odd_parts_is_no_audit(folder: Path, part: dict[str, object]) -> None:
    """The page would fail on it, for all pipelines at once."""
    keep(audit(), "shop", "a:1", ["t"])
    (file,) = folder.iterdir()
    facts = json.loads(file.read_text())
    file.write_text(json.dumps({**facts, "found": {**facts["found"], **part}}))
    assert kept("shop", "a:1") is None


def test_what_is_no_file_is_no_audit(folder: Path) -> None:
    """Nobody writes into a pipe: whoever opened it would wait."""
    keep(audit(), "shop", "a:1", ["t"])
    (file,) = folder.iterdir()
    file.unlink()
    os.mkfifo(file)
    assert kept("shop", "a:1") is None


def test_codes_of_another_version_are_left_out(folder: Path) -> None:
    keep(audit(), "shop", "a:1", ["t"])
    (file,) = folder.iterdir()
    file.write_text(file.read_text().replace('"code": "L2"', '"code": "Z9"'))
    found = kept("shop", "a:1")
    assert found is not None
    assert found.findings == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "file"))
    with pytest.raises(Usage, match="FENCEPOST_CACHE"):
        keep(audit(), "shop", "a:1", ["t"])


def holds() -> Audit:
    found = audit()
    return Audit(found.guarantee, found.engine, [Hop("log to sink", "place", expected=2, landed=2)], found.partitions)


def verdict() -> str:
    found = kept("p", "b")
    assert found is not None
    return str(found.found["verdict"])


def test_a_running_audit_takes_no_verdict_back_that_another_one_gave_meanwhile(folder: Path) -> None:
    keep(audit(), "p", "b", ["t"])
    rounds = KeptRounds("p", "b", ["t"])
    rounds.keep(holds())
    rounds.keep(holds())
    assert verdict() == "holds"  # what was there before it began is older
    keep(audit(), "p", "b", ["t"])
    rounds.keep(holds())
    assert verdict() == "broken"
    keep(holds(), "p", "b", ["t"])
    rounds.keep(audit())
    assert verdict() == "broken"  # what is broken is told, whoever found it
    rounds.keep(holds())
    assert verdict() == "holds"
