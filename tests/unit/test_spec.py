"""The pipeline file: what is wrong in it is named by line and key, and what is right is frozen."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fencepost.cli.init import init
from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.model import Merge, Mode
from fencepost.spec import FILE_NAME, OnError, find, load, parse
from fencepost.spec.schema import json_schema

GOOD = """
name: orders
guarantee: exactly-once
source: {topic: orders}
sink: {format: postgres, options: {table: orders}}
"""


def problems(text: str) -> list[str]:
    with pytest.raises(Usage) as refused:
        parse(text)
    return refused.value.message.splitlines()


def test_the_smallest_file_has_defaults_for_the_rest() -> None:
    spec = parse(GOOD)
    assert spec.guarantee is Guarantee.EXACTLY_ONCE
    assert (spec.source.start, spec.on_error, spec.engine) == ("earliest", OnError.STOP, "spark")
    assert (spec.batch.records, spec.batch.every) == (500_000, timedelta(seconds=1))
    assert spec.sink.options.provenance


def test_a_guarantee_is_required_and_a_misspelt_key_gets_the_nearest() -> None:
    text = GOOD.replace("guarantee", "garantee")
    assert problems(text) == [
        "fencepost.yml line 1: guarantee: is required",
        "fencepost.yml line 3: garantee: no such key; did you mean 'guarantee'?",
    ]


def test_problems_name_their_line_even_deep_in_the_file() -> None:
    text = """\
name: a
guarantee: exactly-once
source:
  topic: t
  valeu: json
sink:
  format: postgres
  options:
    table: t
    mode: replace
"""
    assert problems(text) == [
        "fencepost.yml line 5: source.valeu: no such key; did you mean 'value'?",
        "fencepost.yml line 10: sink.options.mode: input should be 'append', 'upsert' or 'dedupe', not 'replace'",
    ]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("mode: upsert", "mode: upsert needs a key; without one only mode: append can be had"),
        ("mode: dedupe, key: []", "mode: dedupe needs a key"),
        ("key: [id]", "a key goes with mode: upsert or mode: dedupe"),
        ("mode: dedupe, key: [id], tombstones: delete", "order_by and tombstones go with mode: upsert"),
        ("order_by: at", "order_by and tombstones go with mode: upsert"),
        ("mode: upsert, key: [id], order_by: at, tombstones: delete", "a deleted row leaves nothing to compare with"),
    ],
)
def test_a_mode_has_what_it_needs_and_nothing_else(options: str, problem: str) -> None:
    (found,) = problems(GOOD.replace("table: orders", f"table: orders, {options}"))
    assert found.startswith("fencepost.yml line 5: sink.options: ")
    assert problem in found


def test_how_rows_of_one_key_come_together() -> None:
    assert parse(GOOD).sink.options.merge is None
    keyed = GOOD.replace("table: orders", "table: orders, mode: upsert, key: [id, day], tombstones: delete")
    assert parse(keyed).sink.options.merge == Merge(Mode.UPSERT, ("id", "day"), deletes=True)


@pytest.mark.parametrize(
    ("start", "means"),
    [
        ("earliest", "earliest"),
        ("2026-01-31T12:00:00Z", datetime(2026, 1, 31, 12, tzinfo=UTC)),
        ("{0: 120, 1: 7}", {0: 120, 1: 7}),
    ],
)
def test_where_to_start(start: str, means: object) -> None:
    assert parse(GOOD.replace("{topic: orders}", f"{{topic: orders, start: {start}}}")).source.start == means


@pytest.mark.parametrize("block", ["kafka", "spark"])
def test_fail_on_data_loss_belongs_to_the_source(block: str) -> None:
    spec = parse(GOOD.replace("{topic: orders}", "{topic: orders, failOnDataLoss: false}"))
    assert spec.reader_settings["failOnDataLoss"] == "false"
    (found,) = problems(GOOD + f"\n{block}: {{failOnDataLoss: false}}\n")
    assert "write it under source" in found


@pytest.mark.parametrize("start", ["sometimes", "2026-01-31T12:00:00", "{0: -1}", "5"])
def test_a_start_that_means_nothing_is_one_problem(start: str) -> None:
    found = problems(GOOD.replace("{topic: orders}", f"{{topic: orders, start: {start}}}"))
    assert len(found) == 1
    assert "line 4: source.start: earliest, latest, a time with a zone" in found[0]


@pytest.mark.parametrize(
    ("source", "origins"),
    [("topic: orders", ("orders",)), ("topics: [orders, refunds]", ("orders", "refunds")), ("topics: [o]", ("o",))],
)
def test_one_topic_or_several(source: str, origins: tuple[str, ...]) -> None:
    assert parse(GOOD.replace("topic: orders", source)).source.origins == origins


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("value: json", "give topic, or topics"),
        ("topics: []", "give topic, or topics"),
        ("topic: orders, topics: [refunds]", "give topic, or topics"),
        ("topics: [orders, refunds, orders]", "orders is there twice"),
        ("topics: [orders, refunds], start: {0: 5}", "offsets of several topics go by topic"),
        ("topics: [orders, refunds], start: {gifts: {0: 5}}", "gifts is not read"),
        ("topic: orders, start: {refunds: {0: 5}}", "refunds is not read"),
        ("topics: [orders, refunds], start: {orders: {0: -1}}", "earliest, latest, a time"),
        ("topics: [orders, 'not a name']", "string should match"),
    ],
)
def test_topics_that_cannot_be_meant_are_one_problem(source: str, problem: str) -> None:
    (found,) = problems(GOOD.replace("topic: orders", source))
    assert found.startswith("fencepost.yml line 4: source")
    assert problem in found


def test_offsets_go_by_topic_where_there_are_several() -> None:
    source = parse(GOOD.replace("topic: orders", "topics: [a, b], start: {a: {0: 5, 1: 6}}")).source
    assert source.start == {"a": {0: 5, 1: 6}}
    assert parse(GOOD.replace("topic: orders", "topic: a, start: {a: {0: 5}}")).source.start == {"a": {0: 5}}


def test_the_environment_is_filled_in_in_lists_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KIND", "refunds")
    assert parse(GOOD.replace("topic: orders", 'topics: [orders, "${KIND}"]')).source.origins == ("orders", "refunds")


def test_the_topic_that_is_meant_is_the_only_one_or_must_be_named() -> None:
    source = parse(GOOD.replace("topic: orders", "topics: [orders, refunds]")).source
    assert (parse(GOOD).source.one(None), source.one("refunds")) == ("orders", "refunds")
    for topic in (None, "gifts"):
        with pytest.raises(Usage) as refused:
            source.one(topic)
        assert "orders, refunds" in refused.value.remedy


@pytest.mark.parametrize(("every", "seconds"), [("500ms", 0.5), ("2s", 2), ("1m", 60), ("3", 3)])
def test_durations(every: str, seconds: float) -> None:
    assert parse(GOOD + f"batch: {{every: {every}}}").batch.every == timedelta(seconds=seconds)


def test_the_environment_is_filled_in_and_what_it_lacks_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVERS", "kafka:9092")
    monkeypatch.delenv("NOT_THERE", raising=False)
    text = GOOD + 'kafka: {bootstrap.servers: "${SERVERS}", client.id: "${NOT_THERE:-me}"}'
    assert parse(text).kafka == {"bootstrap.servers": "kafka:9092", "client.id": "me"}
    assert problems(GOOD + 'kafka: {client.id: "${NOT_THERE}"}') == [
        "fencepost.yml line 6: kafka.client.id: the environment has no NOT_THERE"
    ]


def test_settings_keep_the_form_that_kafka_and_spark_write() -> None:
    assert parse(GOOD + "spark: {spark.ui.enabled: true, spark.cores.max: 2}").spark == {
        "spark.ui.enabled": "true",
        "spark.cores.max": "2",
    }


def test_a_transform_is_one_of_three() -> None:
    assert "give one of sql, spark or arrow" in problems(GOOD + "transform: {sql: a, spark: b}")[0]
    assert (
        "a schema goes with value: json" in problems(GOOD.replace("{topic: orders}", "{topic: o, schema: id long}"))[0]
    )


def test_no_secret_is_shown() -> None:
    spec = parse(
        GOOD.replace("table: orders", "table: orders, dsn: 'password=hunter2'") + "kafka: {sasl.password: hunter2}"
    )
    assert "hunter2" not in repr(spec)


@pytest.mark.parametrize("text", ["", "[]", "just text", "a: b: c", "\tname: x"])
def test_what_is_no_pipeline_file_is_said_in_one_line(text: str) -> None:
    assert len(problems(text)) == 1


def test_the_nearest_file_above_is_found(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(GOOD)
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    assert load(find(below)).name == "orders"
    with pytest.raises(Usage, match="fencepost init"):
        find(Path("/"))


def test_the_template_is_a_pipeline_as_it_is(tmp_path: Path) -> None:
    init(tmp_path / "shop")
    spec = load(tmp_path / "shop" / FILE_NAME)
    assert (spec.name, spec.guarantee) == ("shop", Guarantee.EXACTLY_ONCE)
    with pytest.raises(Usage, match="exists already"):
        init(tmp_path / "shop")


@pytest.mark.parametrize(
    ("sink", "problem"),
    [
        (
            "{format: sqlite, options: {table: t}}",
            "sink.format: one of postgres, kafka, delta, iceberg, parquet, not 'sqlite'",
        ),
        (
            "{format: csv, options: {path: /lake}}",
            (
                "sink.format: one of postgres, kafka, delta, iceberg, parquet "
                "(of plain files, Parquet keeps every value as it is), not 'csv'"
            ),
        ),
        (
            "{format: 'postgres ', options: {table: t}}",
            "sink.format: one of postgres, kafka, delta, iceberg, parquet, not 'postgres '",
        ),
        ("{format: postgres, options: 3}", "sink.options: must hold keys and values"),
        ("postgres", "sink: must hold keys and values"),
    ],
)
def test_a_sink_that_cannot_be_meant_is_one_problem(sink: str, problem: str) -> None:
    text = GOOD.replace("{format: postgres, options: {table: orders}}", sink)
    assert problems(text) == [f"fencepost.yml line 5: {problem}"]


def test_the_group_of_a_kafka_sink_is_the_pipelines_own_name_or_absent() -> None:
    text = GOOD.replace("{format: postgres, options: {table: orders}}", "{format: kafka, options: {topic: out%s}}")
    text += "engine: python\n"
    for taken in ("", ", group: orders", ", group: ''"):
        parse(text % taken)
    (problem,) = problems(text % ", group: mine")
    assert "sink.options.group can only be the pipeline's own name" in problem


def test_the_json_schema_knows_every_key() -> None:
    schema = json.dumps(json_schema())
    assert all(f'"{key}"' in schema for key in ("guarantee", "start", "schema", "provenance", "on_error", "every"))


@pytest.mark.parametrize("options", ["table: {long}", "table: s.{long}", "table: {long}.t", "ledger_schema: {long}"])
def test_names_that_postgresql_would_cut_are_refused(options: str) -> None:
    for length, cut in ((31, False), (32, True)):
        given = options.format(long="\u00e9" * length)
        text = GOOD.replace("table: orders", given if "table" in given.split(":")[0] else f"table: orders, {given}")
        if cut:
            assert "63 at most" in problems(text)[0]
        else:
            assert parse(text)


@pytest.mark.parametrize("place", ["s3://bucket/state", "dbfs:/state", "hdfs:/state", "''"])
def test_a_checkpoint_is_a_folder_of_the_file_system(place: str) -> None:
    more = "transform: {sql: SELECT key FROM events GROUP BY key, output_mode: update}"
    (problem,) = problems(f"{GOOD}checkpoint: {place}\n{more}\n")
    assert "it must be a path" in problem
    assert parse(f"{GOOD}checkpoint: a:b/state\n{more}\n").checkpoint == "a:b/state"
