"""Commands about a stream of one's own, which has no pipeline file: `--pipeline NAME --sink ...`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from audit.shop import Shop
from fencepost.guarantee import Guarantee
from fencepost.local import Stack
from fencepost.run.pipeline import Pipeline
from support.commands import here

EVENTS = range(40)


@pytest.fixture
def shop(stack: Stack) -> Shop:
    shop = Shop(stack)
    shop.send(EVENTS)
    shop.carry(keep=lambda sequence: sequence != 13)  # somebody's own code filters it
    return shop


class Stream:
    """The words for one, and what a command says of it."""

    def __init__(self, shop: Shop, monkeypatch: pytest.MonkeyPatch, **options: Any) -> None:
        monkeypatch.setenv("ITS_DSN", shop.stack.dsn)
        self.options = {"table": shop.name, "dsn": "${ITS_DSN}", "ledger_schema": f"{shop.name}_own", **options}
        self.sink = json.dumps({"format": "postgres", "options": self.options})
        self.words = ("--pipeline", shop.name, "--sink", self.sink, *self.servers(shop.stack))

    @staticmethod
    def servers(stack: Stack) -> tuple[str, str]:
        return ("--bootstrap-server", stack.bootstrap_servers)


@pytest.fixture
def stream(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Stream:
    return Stream(shop, monkeypatch)


ITS_WORD = ("--guarantee", "exactly-once", "--format", "json")


def test_its_positions_and_status(shop: Shop, stream: Stream) -> None:
    status = here("status", *stream.words, *ITS_WORD).json
    assert (status["guarantee"], status["lag"], status["rows"]) == ("exactly-once", 0, 39)
    shown = here("positions", "show", *stream.words, *ITS_WORD).json
    assert {one["topic"] for one in shown["positions"]} == {shop.name}
    moved = here("positions", "set", "--to", "0:3", "--yes", *stream.words, *ITS_WORD).json
    assert moved["positions"][f"{shop.name}/0"] == 3
    assert here("status", *stream.words, *ITS_WORD).json["lag"] == status["partitions"][0]["end"] - 3


def test_what_it_filtered_is_not_lost_and_what_is_lost_is_found(shop: Shop, stream: Stream) -> None:
    found = here("audit", *stream.words, *ITS_WORD).json
    assert (found["verdict"], found["expected"], found["landed"], found["lost"]) == ("holds", 39, 39, 0)
    shop.sql(f"DELETE FROM {shop.name} WHERE event = 'p:7'")
    broken = here("audit", *stream.words, *ITS_WORD)
    assert (broken.code, json.loads(broken.out)["lost"]) == (1, 1)


def test_its_receipts_and_rows(shop: Shop, stream: Stream) -> None:
    partition, offset = shop.offset_of(20)
    place = ("--partition", partition, "--offset", offset, "--check")
    assert here("receipt", *place, *stream.words, *ITS_WORD).json["receipt"] == "landed"
    rows = here("peek", "--most", 3, *stream.words, *ITS_WORD)
    assert (rows.code, rows.out.count("\n")) == (0, 3)


def test_its_sink_keeps_the_guarantee(shop: Shop, stream: Stream) -> None:
    assert here("status", *stream.words).complaint == (
        f"fencepost: the sink does not keep the guarantee of '{shop.name}': give --guarantee"
    )
    shop.sql(f"UPDATE {shop.name}_own.pipelines SET guarantee = 'at-least-once'")
    assert here("status", *stream.words, "--format", "json").json["guarantee"] == "at-least-once"
    assert "ran at-least-once, as its sink says: remove --guarantee" in here("audit", *stream.words, *ITS_WORD).err


@pytest.mark.parametrize("mode", ["upsert", "dedupe"])
def test_which_row_a_key_has_is_for_its_own_code_to_say(shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    merged = Stream(shop, monkeypatch, mode=mode, key=["event"])
    said = here("audit", *merged.words, *ITS_WORD)
    found = json.loads(said.out)
    assert (said.code, found["verdict"], found["lost"], found["findings"]) == (5, "inconclusive", 0, [])
    assert "only the stream's own code says which event of a key has its row" in found["hops"][1]["undecided"]
    assert here("audit", "--id", "event", *merged.words, *ITS_WORD).code == 5


def test_into_a_topic_what_has_no_record_may_have_been_filtered(stack: Stack, tmp_path: Path) -> None:
    shop, target = Shop(stack), Shop(stack)
    shop.send(EVENTS)
    sink = {"format": "kafka", "options": {"topic": target.name}}
    declared = {"name": shop.name, "guarantee": "at-least-once", "engine": "python", "kafka": shop.kafka}
    (tmp_path / "functions.py").write_text(
        "import pyarrow.compute as pc\n\ndef some(batch):\n"
        "    rows = batch.filter(pc.not_equal(batch['offset'], 3))\n    return rows.select(['key', 'value', '_from'])\n"
    )
    transform = {"arrow": f"{tmp_path / 'functions.py'}:some"}
    Pipeline({**declared, "source": {"topic": shop.name}, "transform": transform, "sink": sink}).run(once=True)
    words = ("--pipeline", shop.name, "--sink", json.dumps(sink), *Stream.servers(stack), "--format", "json")
    assert "give --guarantee" in here("status", *words).err
    said = here("audit", *words, "--guarantee", Guarantee.AT_LEAST_ONCE)
    assert (said.code, json.loads(said.out)["lost"]) == (5, 0)


def test_what_is_missing_or_said_twice_is_refused(shop: Shop, stream: Stream, tmp_path: Path) -> None:
    sink, servers = ("--sink", stream.sink), Stream.servers(shop.stack)
    assert "no position is stored for 'nobody'" in here("status", "--pipeline", "nobody", *sink, *servers).complaint
    assert "where does it write to?" in here("peek", "--pipeline", shop.name, *servers).complaint
    assert "--spec with --pipeline" in here("receipt", "--spec", tmp_path / "a.yml", *stream.words).complaint
    assert "--spec with --pipeline" in here("audit", "--spec", tmp_path / "a.yml", *stream.words).complaint
    assert "--topic with --pipeline" in here("audit", "--topic", shop.name, *stream.words).complaint
    assert "go with --pipeline" in here("status", *sink).complaint
    for command in (("status",), ("audit",), ("peek",), ("positions", "show"), ("receipt",)):
        assert "--bootstrap-server beside a pipeline file" in here(*command, *servers).complaint


@pytest.mark.parametrize(
    ("sink", "said"),
    [
        ("postgres:orders", "--sink does not hold a sink"),
        ("[1, 2]", "--sink does not hold a sink"),
        ("", "--sink does not hold a sink"),
        ("{format: postgres, options: {tabel: t}}", "sink.options.tabel: no such key; did you mean 'table'?"),
        ("{format: nothing}", "--sink line 1: sink.format"),
        ("{format: postgres, options: {table: t, dsn: '${NOT_THERE}'}}", "the environment has no NOT_THERE"),
        ("{format: postgres, options: {table: t, dsn: 'host=h password=hunter2'}}", "everybody on this machine sees"),
        ("{format: postgres, options: {table: t, dsn: 'postgresql://me:hunter2@h/d'}}", "everybody on this machine"),
        ("{format: postgres, format: kafka}", "--sink: "),
    ],
)
def test_a_sink_that_is_none_is_told_and_no_password_shown(sink: str, said: str) -> None:
    ended = here("status", "--pipeline", "shop", "--sink", sink, "--bootstrap-server", "127.0.0.1:1")
    assert ended.code == 2
    assert said in ended.err
    assert "hunter2" not in ended.err
