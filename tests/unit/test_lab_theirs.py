"""Somebody's own pipeline in the lab: what is kept of its file, which scenarios go with it, what its events are."""

from __future__ import annotations

import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from fencepost.audit.findings import Audit, Hop
from fencepost.errors import FencepostError, Usage
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.lab.catalogue import scenarios
from fencepost.lab.pipelines import theirs as theirs_module
from fencepost.lab.pipelines.theirs import MOST, TheirFlow, Theirs, _harmless
from fencepost.rows.json_fields import parse_fields, parse_value
from support.commands import here

SCHEMA = "id long, customer string, amount decimal(10,2), placed_at timestamp, day date, ok boolean, b binary, x double"
FILE: dict[str, Any] = {
    "name": "shop",
    "guarantee": "exactly-once",
    "engine": "python",
    "source": {"topic": "orders", "value": "json", "schema": SCHEMA},
    "sink": {"format": "postgres", "options": {"table": "orders", "dsn": "host=127.0.0.1"}},
}


def written(folder: Path, **parts: Any) -> Path:
    path = folder / "fencepost.yml"
    path.write_text(yaml.safe_dump({**FILE, **parts}))
    return path


def test_events_are_made_that_its_schema_can_read(tmp_path: Path) -> None:
    theirs = Theirs.load(written(tmp_path), None)
    fields = parse_fields(SCHEMA)
    for number in (0, 1, 399):
        values = parse_value(theirs.value(number), fields)
        assert None not in values
        assert values[0] == number


def test_events_are_the_lines_of_a_file_over_and_over(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b'{"id": 1}\n{"id": 2}\n')
    theirs = Theirs.load(written(tmp_path), data)
    assert [json.loads(theirs.value(number))["id"] for number in range(4)] == [1, 2, 1, 2]
    assert theirs.words == ("--pipeline", str(tmp_path / "fencepost.yml"), "--data", str(data))


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_of_events_is_read_as_produce_reads_it(tmp_path: Path, packed: bool) -> None:
    data, content = tmp_path / "data", b'\xef\xbb\xbf{"id": 1}\r\n\r\n{"id": 2}\n\n'
    data.write_bytes(gzip.compress(content) if packed else content)
    theirs = Theirs.load(written(tmp_path), data)
    assert [theirs.value(number) for number in range(3)] == [b'{"id": 1}', b'{"id": 2}', b'{"id": 1}']


def test_of_many_events_only_the_first_are_read(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_bytes(b"{}\n" * 2 * MOST)
    assert len(Theirs.load(written(tmp_path), data).lines) == MOST


def test_a_file_of_events_that_cannot_be_read_again_is_refused(tmp_path: Path) -> None:
    pipe, cut = tmp_path / "pipe", tmp_path / "data.gz"
    os.mkfifo(pipe)
    cut.write_bytes(gzip.compress(os.urandom(1_000))[:-20])
    for data in (pipe, cut):
        with pytest.raises(Usage):
            Theirs.load(written(tmp_path), data)


def test_only_scenarios_of_its_engine_sink_and_guarantee_go_with_it(tmp_path: Path) -> None:
    theirs = Theirs.load(written(tmp_path), None)
    fitting = [scenario for scenario in scenarios().values() if theirs.fits(scenario)]
    assert len(fitting) >= 8
    assert {(one.engine, one.sink, one.guarantee) for one in fitting} == {("python", "postgres", "exactly-once")}
    assert all(one.control and one.control.recipe is None for one in fitting)


def test_what_names_topics_of_theirs_is_the_labs_own(tmp_path: Path) -> None:
    parts = {
        "source": {"topic": "orders"},
        "sink": {
            "format": "kafka",
            "options": {"topic": "out", "topics": ["out"], "group": "shop", "provenance": False},
        },
        "on_error": "dead_letter",
        "dead_letters": {"topic": "orders-dead", "max_share": "0.5"},
    }
    theirs = Theirs.load(written(tmp_path, **parts), None)
    kept = theirs.kept("lab_1")
    assert kept["sink"]["options"] == {"provenance": False}
    assert kept["dead_letters"] == {"topic": "lab_1_dead", "max_share": 0.5}
    assert kept["source"]["topic"] == "lab_1"
    assert "orders" not in str(kept)


def test_where_their_spark_is_and_what_it_may_read_stays_out_of_the_lab() -> None:
    given = {
        "spark.master": "spark://elsewhere:7077",
        "spark.sql.catalog.lake.uri": "http://elsewhere",
        "spark.hadoop.fs.s3a.secret.key": "hidden",
        "spark.sql.shuffle.partitions": "2",
    }
    assert _harmless(given) == {"spark.sql.shuffle.partitions": "2"}


@pytest.mark.parametrize(
    "parts",
    [
        {"source": {"topics": ["a", "b"]}},
        {"engine": "spark", "sink": {"format": "parquet", "options": {"path": "/srv/x"}}},
        {
            "engine": "spark",
            "checkpoint": "state",
            "transform": {"sql": "SELECT 1", "watermark": {"column": "placed_at", "delay": "1 minute"}},
        },
    ],
)
def test_a_pipeline_that_the_lab_has_no_place_for_is_refused(tmp_path: Path, parts: dict[str, Any]) -> None:
    with pytest.raises(Usage):
        Theirs.load(written(tmp_path, guarantee="at-least-once", **parts), None)


def test_words_that_do_not_go_together_are_refused_before_anything_starts(tmp_path: Path) -> None:
    home = ("--home", tmp_path / "lab")
    file, empty = written(tmp_path), tmp_path / "empty"
    empty.touch()
    for words in (
        ["--data", empty, "--all"],
        ["--pipeline", file, "--data", empty],
        ["--pipeline", file, "--data", tmp_path / "nowhere"],
        ["--pipeline", tmp_path / "nowhere.yml"],
        ["--pipeline", file, "dies-after-the-write-kafka-python-eo"],
        ["--pipeline", file, "dies-after-the-write", "dies-after-the-write-kafka-python-eo"],
        ["--pipeline", file, "dies-after-the-write", "zombie-producer"],
    ):
        ended = here("lab", "run", *words, *home)
        assert ended.code == 2, words
        assert ended.complaint
    assert not (tmp_path / "lab").exists()


class Counted(TheirFlow):
    """A flow whose events are counted by an audit that found this."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.sent = list(range(10))


def audited(
    monkeypatch: pytest.MonkeyPatch, *, waiting: int = 0, undecided: str = "", hop_undecided: str = "", **hop: Any
) -> None:
    hops = [Hop("log to sink", "place", landed=10, undecided=hop_undecided, **hop)]
    found = Audit(Guarantee.EXACTLY_ONCE, "duckdb", hops)
    found.partitions, found.undecided = [{"waiting": 0}, {"waiting": waiting}], undecided
    monkeypatch.setattr(theirs_module, "audit", lambda _file: found)


def test_what_an_audit_of_everything_finds_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    audited(monkeypatch, totals=Counter({Anomaly.DOUBLED_IN_SINK: 3}))
    result, anomalies = Counted(tmp_path).counted([], stopped="")
    assert (result.landed, anomalies) == (10, {Anomaly.DOUBLED_IN_SINK: 3})


@pytest.mark.parametrize(
    ("found", "why"),
    [
        ({"waiting": 40}, "not read: 40 offsets of the topic"),
        ({"undecided": "no position is stored"}, "no position is stored"),
        ({"hop_undecided": "rows of one key"}, "rows of one key"),
        ({"not_checked": ["only their number was compared"]}, "only their number was compared"),
    ],
)
def test_an_audit_of_less_than_everything_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: dict[str, Any], why: str
) -> None:
    audited(monkeypatch, **found)
    with pytest.raises(FencepostError, match=why):
        Counted(tmp_path).counted([], stopped="")


def test_of_a_run_that_stopped_nothing_is_audited(tmp_path: Path) -> None:
    with pytest.raises(FencepostError, match="it stopped with Poison"):
        Counted(tmp_path).counted([], stopped="Poison")
