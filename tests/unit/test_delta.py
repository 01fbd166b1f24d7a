"""A Delta table's log as the ledger: notes, what replaces rows, what the log forgets. No Spark."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fencepost.errors import Fenced, PositionLost, Rewound, Usage
from fencepost.fence import StoredPosition
from fencepost.guarantee import Guarantee
from fencepost.model import Span, StreamBatch, Tenure, TopicPartition
from fencepost.sinks.delta import DeltaStore, DeltaTarget
from fencepost.sinks.delta.audited import last_rows
from fencepost.sinks.delta.kind import KIND
from fencepost.sinks.delta.log_store import COMPARES, require_log_store
from fencepost.sinks.delta.note import Note, from_json, to_json
from fencepost.sinks.delta.options import DeltaOptions
from fencepost.sinks.delta.retention import duration
from fencepost.sinks.kind import SinkJob
from fencepost.sinks.lake.commits import Count
from fencepost.spec import PipelineSpec
from fencepost.testing.batches import ORDERS, PIPELINE, batch, owner

ROWS = pa.schema([("id", pa.int64()), ("s", pa.string())])


def job(path: Path, **options: object) -> SinkJob:
    return SinkJob(PIPELINE, Guarantee.EXACTLY_ONCE, DeltaOptions.model_validate({"path": str(path), **options}))


def made(path: Path, **configuration: str) -> DeltaStore:
    DeltaTable.create(
        str(path), ROWS, configuration={name.replace("_", "."): one for name, one in configuration.items()}
    )
    return DeltaTarget(str(path)).open()


def append(path: Path, mode: str = "append") -> None:
    write_deltalake(str(path), pa.table({"id": [1], "s": ["x"]}, schema=ROWS), mode=mode)


places = st.builds(TopicPartition, st.text(min_size=1, max_size=5), st.integers(0, 2**31 - 1))
moments = st.none() | st.integers(0, 2**40).map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC))
held = st.builds(
    StoredPosition, st.integers(0, 2**63 - 1), st.none() | st.uuids(), st.integers(0, 2**20), st.just("id"), moments
)
spans = st.builds(lambda start, size: Span(start, start + size), st.integers(0, 2**60), st.integers(0, 9))


streams = st.builds(StreamBatch, st.text(), st.integers(-1), st.text(), st.integers(0), st.integers(0), st.text())


@given(
    st.dictionaries(places, held, max_size=4),
    st.dictionaries(places, spans, max_size=3),
    st.none() | st.uuids(),
    st.none() | streams,
)
def test_a_note_comes_back_as_it_was(stored, moved, token, stream) -> None:  # type: ignore[no-untyped-def]
    note = Note(
        "p",
        stored,
        3,
        token,
        "exactly-once",
        moved,
        True,
        7,
        2,
        Count(1, 2),
        Count(3, 4),
        dict.fromkeys(moved, 1),
        stream=stream,
    )
    assert from_json(to_json(note)) == note


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), lambda x: st.dictionaries(st.text(), x)))
def test_what_others_write_there_is_no_note(text: object) -> None:
    assert from_json(text) is None
    assert from_json(json.dumps({"fencepost": text}, default=str)) is None


def test_a_commit_lands_on_the_version_that_was_read_or_not_at_all(tmp_path: Path) -> None:
    store = made(tmp_path / "t")
    owner(store)
    there = store.held(PIPELINE)
    assert there.version == 1
    assert there.note is not None
    append(tmp_path / "t")
    assert not store.log.commit(there.version + 1, there.note)
    assert DeltaTable(str(tmp_path / "t")).version() == 2


def test_commits_of_others_do_not_disturb(tmp_path: Path) -> None:
    store = made(tmp_path / "t")
    tenure = owner(store)
    for _ in range(3):
        append(tmp_path / "t")
    DeltaTable(str(tmp_path / "t")).optimize.compact()
    DeltaTable(str(tmp_path / "t")).vacuum(0, dry_run=False, enforce_retention_duration=False)
    store.advance(batch(tenure, 0, 5))
    assert dict(store.positions(PIPELINE)) == {ORDERS: 5}


@pytest.mark.parametrize("how", ["overwrite", "restore"])
def test_rows_that_were_replaced_after_our_last_commit_are_refused_until_positions_are_set(
    tmp_path: Path, how: str
) -> None:
    store = made(tmp_path / "t")
    append(tmp_path / "t")
    store.set_positions(PIPELINE, {ORDERS: 0}, {})
    tenure = owner(store)
    store.advance(batch(tenure, 0, 5))
    if how == "restore":
        DeltaTable(str(tmp_path / "t")).restore(0)
    else:
        append(tmp_path / "t", mode="overwrite")
    with pytest.raises(PositionLost, match="replaced rows"):
        store.advance(batch(tenure, 5, 6))
    with pytest.raises(PositionLost, match="replaced rows"):
        owner(DeltaTarget(store.target.path).open())
    assert dict(store.positions(PIPELINE)) == {ORDERS: 5}

    DeltaTarget(store.target.path).open().set_positions(PIPELINE, {ORDERS: 3}, {})
    with pytest.raises(Fenced):
        store.advance(batch(tenure, 5, 6))
    assert owner(store).positions == {ORDERS: 3}


def test_positions_that_went_with_the_log_are_missed_and_may_be_set(tmp_path: Path) -> None:
    store = made(tmp_path / "t")
    old = owner(store)
    store.advance(batch(old, 0, 5))
    append(tmp_path / "t")
    DeltaTable(str(tmp_path / "t")).create_checkpoint()
    for file in sorted((tmp_path / "t" / "_delta_log").glob("*.json"))[:-1]:
        file.unlink()
    fresh = DeltaTarget(store.target.path).open()
    with pytest.raises(PositionLost, match="clean-up"):
        owner(fresh)
    with pytest.raises(PositionLost, match="clean-up"):
        fresh.stream(PIPELINE)  # of a stream that keeps state: it did not begin yesterday
    fresh.set_positions(PIPELINE, {ORDERS: 5}, {})
    assert owner(fresh).positions == {ORDERS: 5}
    assert owner(fresh).epoch > old.epoch


def test_positions_are_renewed_in_time_before_the_log_is_cleaned_up(tmp_path: Path) -> None:
    store = made(tmp_path / "t", delta_logRetentionDuration="interval 8 days")
    assert KIND.expires_after(job(tmp_path / "t")) == timedelta(days=8).total_seconds()
    tenure = owner(store)
    store.renew(tenure, uuid4())
    assert store.held(PIPELINE).version == 2


@pytest.mark.parametrize(
    ("text", "days"),
    [(None, 30), ("interval 30 days", 30), ("interval 1 week", 7), ("INTERVAL 2 days 24 hours", 3), ("1 month", None),
     ("interval", None), ("interval days", None)],
)  # fmt: skip
def test_durations_as_delta_writes_them(text: str | None, days: int | None) -> None:
    assert duration(text) == (None if days is None else timedelta(days=days))


def test_a_table_that_forgets_is_refused(tmp_path: Path) -> None:
    DeltaTable.create(
        str(tmp_path / "a"), ROWS, configuration={"delta.setTransactionRetentionDuration": "interval 1 day"}
    )
    with pytest.raises(Usage, match="UNSET TBLPROPERTIES"):
        KIND.fit(job(tmp_path / "a"), ROWS)
    DeltaTable.create(str(tmp_path / "b"), ROWS, configuration={"delta.logRetentionDuration": "interval 5 minutes"})
    with pytest.raises(Usage, match="interval 30 days"):
        KIND.fit(job(tmp_path / "b"), ROWS)


def test_columns_are_compared_by_name_and_type(tmp_path: Path) -> None:
    assert not KIND.fit(job(tmp_path / "t"), ROWS).exists
    KIND.prepare(job(tmp_path / "t"), ROWS)
    assert KIND.fit(job(tmp_path / "t"), ROWS).columns == {"id": "long", "s": "string"}
    assert KIND.fit(job(tmp_path / "t"), ROWS.remove(1)).exists
    more = ROWS.append(pa.field("more", pa.float64()))
    with pytest.raises(Usage, match="no column 'more'"):
        KIND.fit(job(tmp_path / "t"), more)
    assert KIND.fit(job(tmp_path / "t", schema="evolve"), more).columns["more"] == "double"
    with pytest.raises(Usage, match="'id' is string, but long in table"):
        KIND.fit(job(tmp_path / "t", schema="evolve"), pa.schema([("id", pa.string())]))
    with pytest.raises(Usage, match="differ in case only"):
        KIND.fit(job(tmp_path / "u"), pa.schema([("a", pa.string()), ("A", pa.string())]))
    with pytest.raises(Usage, match="rename it"):
        KIND.fit(job(tmp_path / "u"), pa.schema([("a b", pa.string())]))
    with pytest.raises(Usage, match="partition_by"):
        KIND.fit(job(tmp_path / "u", partition_by=["day"]), ROWS)


def test_a_table_to_which_deltalake_cannot_commit_is_refused(tmp_path: Path) -> None:
    KIND.prepare(job(tmp_path / "t"), ROWS)
    log = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "protocol" in line:
            line["protocol"] |= {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": []}
            line["protocol"]["writerFeatures"] = ["appendOnly", "rowTracking", "domainMetadata"]
    log.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises(Usage, match="domainMetadata, rowTracking"):
        KIND.fit(job(tmp_path / "t"), ROWS)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"table": "t"}, "give its path"),
        ({"path": "/t", "order_by": "ts"}, "the highest offset"),
        ({"path": "/t", "tombstones": "delete"}, "a row like any other"),
        ({"path": "relative"}, "an absolute path"),
        ({"path": "/t", "mode": "upsert"}, "needs a key"),
        ({"path": "/t", "key": ["id"]}, "a key goes with"),
    ],
)
def test_options_that_cannot_be_are_refused_with_the_reason(options: dict[str, object], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        DeltaOptions.model_validate(options)


def test_the_python_engine_is_refused_with_the_reason(tmp_path: Path) -> None:
    declared = {"name": "shop", "guarantee": "exactly-once", "engine": "python", "source": {"topic": "orders"}}
    sink = {"format": "delta", "options": {"path": str(tmp_path / "t")}}
    with pytest.raises(ValueError, match="goes with engine: spark: its rows are written by Spark's own writer"):
        PipelineSpec.model_validate({**declared, "sink": sink})


def test_a_table_that_is_not_there_has_no_positions_and_none_can_be_set(tmp_path: Path) -> None:
    ledger = KIND.ledger(job(tmp_path / "t"))
    assert dict(ledger.positions(PIPELINE)) == {}
    with pytest.raises(Usage, match="there is no Delta table"):
        ledger.set_positions(PIPELINE, {ORDERS: 1}, {})
    assert not (tmp_path / "t").exists()


def test_a_table_that_was_removed_and_made_again_has_no_positions(tmp_path: Path) -> None:
    store = made(tmp_path / "t")
    tenure = owner(store)
    store.advance(batch(tenure, 0, 5))
    shutil.rmtree(tmp_path / "t")
    assert dict(store.positions(PIPELINE)) == {}
    with pytest.raises(PositionLost, match="was removed or replaced"):
        store.renew(tenure, uuid4())
    for _ in range(4):
        made(tmp_path / "t") if not (tmp_path / "t").exists() else append(tmp_path / "t")
    with pytest.raises(Rewound):
        store.advance(batch(tenure, 5, 6))
    with pytest.raises(PositionLost, match="holds rows"):
        owner(store)


def test_rows_that_were_replaced_between_a_comparison_and_its_commit_are_missed(tmp_path: Path) -> None:
    """As an append of Spark's lands: on whatever version the table has by then."""
    store = made(tmp_path / "t")
    tenure = owner(store)
    held = store.held(PIPELINE)
    note = store.moved(held, batch(tenure, 0, 5), rows=True)
    append(tmp_path / "t", mode="overwrite")
    assert store.log.commit((held.version or 0) + 2, note)
    for reader in (store, DeltaTarget(store.target.path).open()):
        with pytest.raises(PositionLost, match="replaced rows"):
            reader.done(batch(tenure, 5, 6))
    store.set_positions(PIPELINE, {ORDERS: 5}, {})
    assert store.done(batch(owner(store), 0, 5))


def test_what_is_left_of_a_table_that_is_gone_is_told(tmp_path: Path) -> None:
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    (tmp_path / "t" / "_delta_log" / f"{4:020}.crc").write_text("{}")
    with pytest.raises(Usage, match="of a table that is gone"):
        KIND.prepare(job(tmp_path / "t"), ROWS)


def test_a_sum_of_the_table_before_is_named(tmp_path: Path) -> None:
    store = made(tmp_path / "t")
    (tmp_path / "t" / "_delta_log" / f"{4:020}.crc").write_text("{}")
    with pytest.raises(Usage, match=f"{4:020}.crc is of a table that was there before"):
        store.log.table()


def test_times_of_any_year_are_read_from_sparks_own_files(tmp_path: Path) -> None:
    """Spark writes INT96, which would be taken for nanoseconds, of which there are too few."""
    rows = pa.table({"at": pa.array([datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)])})
    write_deltalake(str(tmp_path / "t"), rows)
    (file,), log = (tmp_path / "t").glob("*.parquet"), tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    before = file.stat().st_size
    pq.write_table(rows, file, use_deprecated_int96_timestamps=True)
    log.write_text(log.read_text().replace(f'"size":{before}', f'"size":{file.stat().st_size}'))
    _, found = last_rows(DeltaTable(str(tmp_path / "t")), 5)
    assert [at for (at,) in found] == rows.column("at").to_pylist()


def test_a_table_whose_columns_have_other_names_in_its_files_is_not_read(tmp_path: Path) -> None:
    made(tmp_path / "t", delta_columnMapping_mode="name")
    with pytest.raises(Usage, match="columnMapping"):
        last_rows(DeltaTable(str(tmp_path / "t")), 5)


def test_several_pipelines_share_a_table(tmp_path: Path) -> None:
    store = made(tmp_path / "t")
    one = store.take_over("one", uuid4(), {ORDERS: 0}, {})
    two = DeltaTarget(store.target.path).open().take_over("two", uuid4(), {ORDERS: 7}, {})
    store.advance(batch(Tenure("one", one.token, one.epoch, one.positions), 0, 3))
    store.advance(batch(two, 7, 8))
    assert (store.positions("one"), store.positions("two")) == ({ORDERS: 3}, {ORDERS: 8})


@pytest.mark.parametrize("path", ["~/lake", "lake/x", "file:/x", "s3:bucket", "/", ""])
def test_where_a_table_is_must_be_whole(path: str) -> None:
    with pytest.raises(ValidationError, match="it must be an absolute path, or a URI such as"):
        DeltaOptions.model_validate({"path": path})


def test_an_escape_in_a_uri_is_two_folders_and_refused() -> None:
    with pytest.raises(ValidationError, match="a URI without % escapes"):
        DeltaOptions.model_validate({"path": "file:///lake/a%20b"})
    assert DeltaOptions.model_validate({"path": "/lake/a%20b"}).path == "/lake/a%20b"


@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_a_table_in_s3_needs_a_log_store_that_compares_on_both_sides(
    monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    path, setting = f"{scheme}://lake/orders", f"spark.delta.logStore.{scheme}.impl"
    monkeypatch.delenv("AWS_S3_LOCKING_PROVIDER", raising=False)
    for spark in ({}, {setting: "io.delta.storage.S3SingleDriverLogStore"}):
        job = SinkJob("shop", Guarantee.AT_LEAST_ONCE, DeltaOptions.model_validate({"path": path}), spark=spark)
        with pytest.raises(Usage, match="two drivers overwrite each other's commits"):
            KIND.fit(job, pa.schema([("id", pa.int64())]))
    with pytest.raises(Usage, match="AWS_S3_LOCKING_PROVIDER=dynamodb"):
        require_log_store(path, {setting: COMPARES})
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    require_log_store(path, {setting: COMPARES})
    require_log_store("/lake/orders", {})
    require_log_store("hdfs://lake/orders", {})


def test_a_column_that_no_delta_table_can_have_is_named(tmp_path: Path) -> None:
    """deltalake raises a bare Exception of a duration."""
    with pytest.raises(Usage, match="column 'took'"):
        KIND.prepare(job(tmp_path / "t"), pa.schema([("id", pa.int64()), ("took", pa.duration("us"))]))
