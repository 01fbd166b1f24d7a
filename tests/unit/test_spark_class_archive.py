"""The archive of Spark's classes: when it is used, and which ones are removed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.engines.spark import class_archive, class_recording
from fencepost.engines.spark.session import settings_of
from fencepost.machine.java import Java

CONTENT = b"classes"
JAVA = Java(Path("/java"), "17", "PATH")


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark of one jar, and a cache that is empty."""
    home = tmp_path / "spark"
    (home / "jars").mkdir(parents=True)
    (home / "jars" / "spark-core.jar").write_bytes(b"jar")
    monkeypatch.setenv("SPARK_HOME", str(home))
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "cache"))
    return home


def kept(length: int = len(CONTENT), whose: Path | None = None) -> Path:
    """An archive whose name says so many bytes."""
    folder = class_archive.folder(JAVA)
    folder.mkdir(parents=True)
    (folder / "home").write_text(str(whose or class_archive.spark_home()))
    archive = folder / f"{length}.jsa"
    archive.write_bytes(CONTENT)
    return archive


def test_without_one_java_is_told_nothing(spark: Path) -> None:
    assert class_archive.option(JAVA) == ""
    assert "Shared" not in settings_of({}, [], spark)["spark.driver.extraJavaOptions"]


def test_one_that_is_there_is_used_and_the_users_options_come_last(spark: Path) -> None:
    archive = kept()
    mine = {"spark.driver.extraJavaOptions": "-XX:SharedArchiveFile=mine"}
    options = settings_of(mine, [], spark, archive=class_archive.option(JAVA))["spark.driver.extraJavaOptions"].split()
    assert options.index(f"-XX:SharedArchiveFile={archive}") < options.index("-XX:SharedArchiveFile=mine")


def test_one_that_was_cut_short_is_not_used(spark: Path) -> None:
    kept(length=len(CONTENT) + 1)
    assert class_archive.existing(JAVA) is None


def test_one_of_other_jars_is_not_used(spark: Path) -> None:
    kept()
    (spark / "jars" / "another.jar").write_bytes(b"jar")
    assert class_archive.existing(JAVA) is None


def test_one_whose_path_is_two_words_to_java_is_not_used(
    spark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_CACHE", str(tmp_path / "two words"))
    kept()
    assert class_archive.existing(JAVA) is None


def test_one_with_which_java_does_not_start_is_removed(spark: Path) -> None:
    archive = kept()
    class_archive.drop(JAVA)
    assert not archive.exists()


def test_those_of_a_spark_that_is_gone_or_has_changed_are_removed(spark: Path, tmp_path: Path) -> None:
    changed = kept()
    (spark / "jars" / "another.jar").write_bytes(b"jar")
    gone = kept(whose=tmp_path / "gone")
    (spark / "jars" / "a-third.jar").write_bytes(b"jar")
    others = kept(whose=tmp_path)
    class_recording._forget_the_gone(others.parents[1])
    assert [archive.exists() for archive in (changed, gone, others)] == [False, False, True]
