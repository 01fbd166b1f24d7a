"""What `plan` keeps of a trial on Spark, and when that counts for nothing any more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost.engines.spark import preview_cache
from fencepost.errors import Usage
from fencepost.machine import cache
from fencepost.rows.shape import Preview
from fencepost.spec import PipelineSpec

MADE = Preview(pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC")}), None, True, {"a": "b"}, "Window")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "cache"))


def declared(folder: Path, **parts: Any) -> PipelineSpec:
    given = {
        "name": "orders",
        "guarantee": "exactly-once",
        "kafka": {"bootstrap.servers": "127.0.0.1:1"},
        "source": {"topic": "orders"},
        "transform": {"spark": "clean.py:clean"},
        "sink": {"format": "postgres", "options": {"table": "orders", "dsn": "host=h password=p"}},
        **parts,
    }
    return PipelineSpec.model_validate(given).model_copy(update={"folder": str(folder)})


def test_what_was_tried_is_found_again_with_the_time_of_the_trial(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("one")
    assert preview_cache.found(declared(tmp_path)) is None
    preview_cache.keep(declared(tmp_path), MADE)
    found = preview_cache.found(declared(tmp_path))
    assert found is not None
    assert found.tried is not None
    assert (found.columns, found.wide_node, found.provenance) == (MADE.columns, None, True)
    assert (found.settings, found.within_batch) == ({"a": "b"}, "Window")


@pytest.mark.parametrize(
    "change",
    [
        {"source": {"topic": "orders", "value": "string"}},
        {"transform": {"sql": "SELECT 1 FROM events"}},
        {"sink": {"format": "postgres", "options": {"table": "orders", "dsn": "host=h", "provenance": False}}},
        {"spark": {"spark.sql.ansi.enabled": "true"}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_file_is_tried_anew(tmp_path: Path, change: dict[str, Any]) -> None:
    (tmp_path / "clean.py").write_text("one")
    preview_cache.keep(declared(tmp_path), MADE)
    assert preview_cache.found(declared(tmp_path, **change)) is None


def test_another_text_of_the_function_is_tried_anew_and_so_is_one_of_what_it_imports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "clean.py").write_text("one")
    (tmp_path / "imported_by_clean.py").write_text("LIMIT = 1")
    __import__("imported_by_clean")
    preview_cache.keep(declared(tmp_path), MADE)
    assert preview_cache.found(declared(tmp_path)) is not None
    (tmp_path / "imported_by_clean.py").write_text("LIMIT = 2")
    assert preview_cache.found(declared(tmp_path)) is None

    preview_cache.keep(declared(tmp_path), MADE)
    (tmp_path / "clean.py").write_text("two")
    assert preview_cache.found(declared(tmp_path)) is None
    (tmp_path / "clean.py").unlink()
    assert preview_cache.found(declared(tmp_path)) is None


def test_a_file_of_the_cache_that_is_broken_is_none(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("one")
    preview_cache.keep(declared(tmp_path), MADE)
    (entry,) = (cache.folder() / "previews").iterdir()
    for broken in ("", "[]", "{}", json.dumps({**json.loads(entry.read_text()), "columns": "AAAA"})):
        entry.write_text(broken)
        assert preview_cache.found(declared(tmp_path)) is None


def test_no_more_than_so_many_are_kept_and_nobody_else_may_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preview_cache, "MOST", 2)
    (tmp_path / "clean.py").write_text("one")
    for name in ("one", "two", "three"):
        preview_cache.keep(declared(tmp_path, name=name), MADE)
    folder = cache.folder() / "previews"
    assert len(list(folder.iterdir())) == 2
    assert folder.stat().st_mode & 0o077 == 0
    assert preview_cache.found(declared(tmp_path, name="three")) is not None


def test_settings_that_spark_cannot_have_are_refused_though_the_trial_was_kept(tmp_path: Path) -> None:
    (tmp_path / "clean.py").write_text("one")
    spec = declared(tmp_path, kafka={"bootstrap.servers": "127.0.0.1:1", "ssl.providers": "legacy"})
    preview_cache.keep(spec, MADE)
    with pytest.raises(Usage):
        preview_cache.found(spec)
