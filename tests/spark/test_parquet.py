"""Pipelines into Parquet files: what lands, what is refused, and what each word leaves behind after a kill."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.errors import PositionLost, Refused, UnsupportedGuarantee, Usage
from fencepost.lab.crash import visits
from fencepost.local import Stack
from fencepost.run.pipeline import Pipeline
from fencepost.sinks.parquet import publishing
from fencepost.sinks.parquet.folder import Folder
from fencepost.sinks.parquet.options import ParquetOptions
from spark.drivers import pipeline_process
from spark.flows import RETRIES
from spark.parquet_flow import ParquetFlow
from support.commands import here

pytestmark = pytest.mark.timeout(900)
FIRST = range(2_000)


@pytest.fixture
def files(stack: Stack, tmp_path: Path) -> ParquetFlow:
    return ParquetFlow(stack, tmp_path)


@pytest.mark.parametrize("guarantee", ["at-least-once", pytest.param("at-most-once", marks=pytest.mark.proof)])
def test_rows_land_once_where_nothing_breaks_and_the_group_is_the_ledger(files: ParquetFlow, guarantee: str) -> None:
    files.produce(range(100))
    assert files.run(guarantee=guarantee).rows == 100
    files.produce(range(100, 150))
    assert files.run(guarantee=guarantee).rows == 50
    files.assert_exact(150)
    assert files.positions() == {0: 75, 1: 75}
    assert files.left_over() == []
    spec = str(files.declare(guarantee=guarantee))
    assert here("audit", "--spec", spec).code == 0
    assert here("status", "--spec", spec, "--format", "json").json["lag"] == 0
    shown = here("peek", "--spec", spec, "--most", 50, "--format", "json").out.splitlines()
    assert {json.loads(row)["id"] for row in shown} == set(range(100, 150)), "what was written last"


def test_exactly_once_is_refused_with_what_can_be_had(files: ParquetFlow) -> None:
    with pytest.raises(UnsupportedGuarantee, match="cannot store the position together with the rows") as refused:
        Pipeline(files.declare(guarantee="exactly-once")).run(once=True)
    assert "at-least-once" in str(refused.value)
    assert "format: delta or format: iceberg" in str(refused.value)
    assert not files.path.exists()
    told = here("plan", "--spec", files.declare(guarantee="exactly-once"))
    assert told.code == 2
    assert "format: delta" in told.err
    with pytest.raises(Usage, match="cannot store dead letters") as no_letters:
        Pipeline(files.declare(on_error="dead_letter")).run(once=True)
    assert no_letters.value.remedy == "leave it at stop"
    Pipeline(files.declare(on_error="stop")).run(once=True)


@pytest.mark.proof
def test_files_of_folders_are_read_by_every_value_as_it_was(files: ParquetFlow) -> None:
    files.produce(range(6))
    sql = "SELECT id, concat('0', cast(id % 2 AS string)) AS part, _from FROM events"
    options = {"partition_by": ["part"]}
    assert files.run(transform={"sql": sql}, options=options).rows == 6
    folder = Folder(ParquetOptions.model_validate({"path": str(files.path), "partition_by": ("part",)}))
    found = folder.read(("id", "part")).to_pylist()
    assert sorted((one["id"], one["part"]) for one in found) == [(id_, f"0{id_ % 2}") for id_ in range(6)]
    assert files.run(transform={"sql": sql}, options=options).rows == 0


@pytest.mark.proof
def test_texts_that_would_be_the_same_folder_land_as_readers_have_them(files: ParquetFlow) -> None:
    files.produce(range(6))
    sql = "SELECT id, CASE id % 6 WHEN 0 THEN '' WHEN 2 THEN 'a' WHEN 1 THEN '../b' END AS part, _from FROM events"
    parts: dict[str, Any] = {"transform": {"sql": sql}, "options": {"partition_by": ["part"]}}
    assert files.run(**parts).rows == 6
    folder = Folder(ParquetOptions.model_validate({"path": str(files.path), "partition_by": ("part",)}))
    found = {row["id"]: row["part"] for row in folder.read(("id", "part")).to_pylist()}
    assert found == {0: None, 1: "../b", 2: "a", 3: None, 4: None, 5: None}
    assert here("audit", "--spec", files.declare(**parts)).code == 0
    few = {**parts, "transform": {"sql": f"{sql} WHERE id < 6"}}
    files.produce(range(6, 8))
    assert files.run(**few).rows == 0
    told = here("audit", "--spec", files.declare(**few))
    assert (told.code, "filtered, lost" in told.out) == (5, True), told  # nobody counted: neither may be said


@pytest.mark.proof
def test_rows_of_other_columns_are_refused(files: ParquetFlow) -> None:
    files.produce(range(2))
    files.run()
    for sql, why in {
        "SELECT cast(id AS string) AS id, _from FROM events": "column 'id' is string, but int64 in the files",
        "SELECT id, 1 AS more, _from FROM events": "have no column 'more'",
        "SELECT 1 AS other, _from FROM events": "have no column 'other'",
        "SELECT id FROM events": "have a column '_",
    }.items():
        with pytest.raises(Usage, match=why):
            files.run(transform={"sql": sql})
    files.assert_exact(2)


@pytest.mark.proof
def test_a_folder_with_files_and_no_position_is_refused_until_positions_are_set(files: ParquetFlow) -> None:
    files.path.mkdir()
    pq.write_table(pa.table({"id": [7]}), files.path / "theirs.parquet")
    files.produce(range(4))
    parts: dict[str, Any] = {"options": {"provenance": False}}
    with pytest.raises(PositionLost, match="holds files"):
        files.run(**parts)
    assert here("positions", "set", "--spec", files.declare(**parts), "--to", "0:1,1:1", "--yes").code == 0
    assert files.run(**parts).rows == 2
    assert sorted(files.landed()) == [2, 3, 7]


@pytest.mark.proof
@pytest.mark.parametrize(
    ("guarantee", "step"),
    [("at-least-once", "written"), ("at-most-once", "advanced")],
)
def test_a_kill_between_the_two_steps(files: ParquetFlow, tmp_path: Path, guarantee: str, step: str) -> None:
    """At least once the batch is there twice and none is lost; at most once it is lost and none is there twice."""
    files.produce(FIRST)
    witness = tmp_path / "witness"
    spec = files.declare(guarantee=guarantee)
    with pipeline_process(spec, "--once", "--crash", step, "1", "stop", str(witness)) as driver:
        driver.wait_until(lambda: visits(witness), "it comes by")
        driver.kill()
    files.produce(range(2_000, 2_100))
    files.run(guarantee=guarantee)
    counted = Counter(files.landed())
    if guarantee == "at-least-once":
        assert counted == {**dict.fromkeys(FIRST, 2), **dict.fromkeys(range(2_000, 2_100), 1)}
    else:
        assert counted == dict.fromkeys(range(2_000, 2_100), 1)
    assert files.left_over() == []


@pytest.mark.proof
@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_a_driver_killed_while_its_stage_is_full_leaves_nothing_that_is_read(
    files: ParquetFlow, guarantee: str
) -> None:
    files.produce(FIRST)
    slow = files.folder / "slow.py"
    slow.write_text(
        "import time\n"
        "def slow(rows):\n"
        "    if rows.num_rows and rows['id'][0].as_py() % 2:\n"
        "        time.sleep(600)\n"
        "    return rows.select(['id', '_from'])\n"
    )
    with pipeline_process(files.declare(guarantee=guarantee, transform={"arrow": "slow.py:slow"}), "--once") as driver:
        driver.wait_until(lambda: any(file.stat().st_size for file in files.left_over()), "a task has written")
        driver.kill()
    assert files.landed() == []
    files.run(guarantee=guarantee)
    counted = Counter(files.landed())
    assert counted == (dict.fromkeys(FIRST, 1) if guarantee == "at-least-once" else {})
    files.produce([2_000])
    files.run(guarantee=guarantee)
    assert files.left_over() == []


@pytest.mark.proof
def test_a_job_that_fails_after_some_tasks_ended_is_put_back_and_lands_once(files: ParquetFlow) -> None:
    files.produce(range(200))
    failing = files.folder / "failing.py"
    failing.write_text(
        "def failing(rows):\n"
        "    if rows.num_rows and rows['id'][0].as_py() % 2:\n"
        "        raise ValueError('no')\n"
        "    return rows.select(['id', '_from'])\n"
    )
    with pytest.raises(Refused):
        files.run(guarantee="at-most-once", transform={"arrow": "failing.py:failing"})
    assert (files.landed(), files.positions()) == ([], {0: 0, 1: 0})
    assert files.run(guarantee="at-most-once").rows == 200
    files.assert_exact(200)


@pytest.mark.proof
def test_files_that_were_renamed_in_part_are_never_there_twice_at_most_once(
    files: ParquetFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    files.produce(range(200))
    found = publishing.Stage._files

    def broken(stage: publishing.Stage) -> list[Any]:
        """The second file is not there any more when its turn comes."""
        listed = found(stage)
        if monkeypatch_on and len(listed) > 1:
            stage._system.delete(listed[1], False)
        return listed

    monkeypatch_on = False
    filled = publishing.Stage.fill

    def fill(stage: publishing.Stage, rows: Any) -> int:
        nonlocal monkeypatch_on
        count = filled(stage, rows)
        monkeypatch_on = True
        return count

    monkeypatch.setattr(publishing.Stage, "_files", broken)
    monkeypatch.setattr(publishing.Stage, "fill", fill)
    files.run(guarantee="at-most-once")
    monkeypatch.undo()
    files.run(guarantee="at-most-once")
    assert files.positions() == {0: 100, 1: 100}
    assert set(Counter(files.landed()).values()) == {1}
    assert len(files.landed()) == 100


@pytest.mark.proof
def test_names_and_values_that_are_no_file_names(stack: Stack, tmp_path: Path) -> None:
    (odd := tmp_path / "a b#c[d]é").mkdir()
    files = ParquetFlow(stack, odd)
    values = ["a/b", "ü ü", "..", "x=1", "%41", "{*}", "", None]
    files.produce(range(len(values)))
    chosen = ", ".join("NULL" if one is None else f"'{one}'" for one in values)
    sql = f"SELECT id, element_at(array({chosen}), cast(id + 1 AS int)) AS part, _from FROM events"
    parts: dict[str, Any] = {"transform": {"sql": sql}, "options": {"partition_by": ["part"]}}
    assert files.run(**parts).rows == len(values)
    folder = Folder(ParquetOptions.model_validate({"path": str(files.path), "partition_by": ["part"]}))
    found = {row["id"]: row["part"] for row in folder.read(("id", "part")).to_pylist()}
    assert found == {id_: value or None for id_, value in enumerate(values)}
    assert here("audit", "--spec", files.declare(**parts)).code == 0
    assert {path.name for path in odd.iterdir()} == {files.path.name, f"{files.name}.yml"}


@pytest.mark.proof
def test_task_attempts_that_fail_leave_nothing(files: ParquetFlow) -> None:
    files.produce(range(200))
    flaky = files.folder / "flaky.py"
    flaky.write_text(
        "from pyspark import TaskContext\n"
        "def flaky(rows):\n"
        "    context = TaskContext.get()\n"
        "    if context is not None and context.attemptNumber() < 2 and rows.num_rows:\n"
        "        import os; os._exit(1)\n"
        "    return rows.select(['id', '_from'])\n"
    )
    assert files.run(transform={"arrow": "flaky.py:flaky"}, spark=RETRIES).rows == 200
    files.assert_exact(200)


@pytest.mark.proof
@pytest.mark.parametrize("step", ["started", "written", "advanced", "delivered"])
def test_a_driver_that_stands_still_at_a_step_is_fenced_when_it_goes_on(
    files: ParquetFlow, tmp_path: Path, step: str
) -> None:
    files.produce(FIRST)
    witness = tmp_path / "witness"
    with pipeline_process(files.declare(), "--crash", step, "1", "stop", str(witness)) as driver:
        driver.wait_until(lambda: visits(witness), "it stands still")
        driver.stop()
        files.run()
        driver.go_on()
        assert driver.ended() == 4, driver.told()
    counted = Counter(files.landed())
    assert set(counted) == set(FIRST)
    assert set(counted.values()) <= {1, 2}
    with closing(files.store()) as store:
        assert sum(store.positions(files.name).values()) == 2_000
