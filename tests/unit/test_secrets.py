"""A password that stands in the wrong place, or is written wrongly, is not shown by the message that says so."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from fencepost.engines.spark import session
from fencepost.engines.spark.session import REDACTION, open_session, settings_of
from fencepost.errors import FencepostError, Unreachable, Usage
from fencepost.machine.java import Java
from fencepost.run.pipeline import Pipeline
from fencepost.sinks.postgres.connection import connect
from fencepost.sinks.postgres.reading import reader
from fencepost.spec import PipelineSpec, parse

SECRET = "hunter2"  # noqa: S105
DECLARED: dict[str, Any] = {
    "name": "orders",
    "guarantee": "exactly-once",
    "kafka": {"sasl.password": SECRET},
    "source": {"topic": "orders"},
    "sink": {"format": "postgres", "options": {"dsn": f"password={SECRET}", "table": "orders"}},
    "spark": {"spark.hadoop.fs.s3a.secret.key": SECRET},
}


@pytest.mark.parametrize(
    "text",
    [
        f"kafka: sasl.password={SECRET}",
        f"kafka: {{sasl.password: [{SECRET}]}}",
        f"spark: {SECRET}",
        f"sink: {SECRET}",
        f"sink: {{format: postgres, options: 'dsn={SECRET}'}}",
        f"sink: {{format: postgres, options: {{dsn: [{SECRET}]}}}}",
        f"sink: {{format: postgres, options: {{dns: {SECRET}}}}}",
    ],
)
def test_a_file_that_is_wrong_is_refused_without_showing_it(text: str) -> None:
    with pytest.raises(Usage) as refused:
        parse(text)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("wrong", [{"guarantee": "twice"}, {"sink": DECLARED["sink"] | {"format": "kafka"}}])
def test_a_declaration_in_code_is_refused_without_showing_it(wrong: dict[str, Any]) -> None:
    with pytest.raises(Usage) as refused:
        Pipeline({**DECLARED, **wrong})
    assert SECRET not in "".join(traceback.format_exception(refused.value))


def test_a_declaration_can_be_printed() -> None:
    assert SECRET not in repr(PipelineSpec.model_validate(DECLARED))


@pytest.mark.parametrize(
    "dsn",
    [
        f"postgresql://u:{SECRET}@x@127.0.0.1:1/db",
        f"postgresql://u:a/{SECRET}@127.0.0.1:1/db",
        f"postgresql://u:a%zz{SECRET}@127.0.0.1:1/db",
        f"host=127.0.0.1 port=1 password=a {SECRET}",
        f"host=127.0.0.1 port=1 user=u password={SECRET}",  # is right, but nobody answers
    ],
)
@pytest.mark.parametrize("how", [connect, lambda dsn: reader(dsn).__enter__()], ids=["writer", "reader"])
def test_a_connection_string_is_never_shown(dsn: str, how: Any) -> None:
    with pytest.raises(FencepostError) as refused:
        how(dsn)
    assert SECRET not in "".join(traceback.format_exception(refused.value))
    assert "\n" not in str(refused.value)


def test_spark_hides_what_it_hides_by_itself_what_kafka_calls_secret_and_what_the_user_adds() -> None:
    settings = settings_of({"spark.redaction.regex": "mine"}, [], Path("place"))
    assert settings[REDACTION[0]].endswith("|mine")
    for name in REDACTION:
        for word in ("secret", "password", "token", "jaas"):
            assert word in settings[name]


def _no_java(_name: str) -> None:
    raise RuntimeError("Java gateway process exited")


def test_the_log_that_is_kept_when_spark_does_not_start_is_for_its_owner_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Settings may stand in it."""
    (tmp_path / "spark.log").write_text("why")
    monkeypatch.setattr("fencepost.engines.spark.scratch.folder", lambda: tmp_path)
    monkeypatch.setattr(session, "fetch", lambda _extra: [])
    monkeypatch.setattr(session, "home_for_spark", lambda *_: tmp_path)
    monkeypatch.setattr(session, "find", lambda: Java(tmp_path, "17", "PATH"))
    monkeypatch.setattr(session, "SparkSession", SimpleNamespace(builder=SimpleNamespace(appName=_no_java)))
    monkeypatch.setenv("JAVA_HOME", "")
    before = os.umask(0)
    try:
        with pytest.raises(Unreachable) as failed, open_session("orders", {}):
            pass
    finally:
        os.umask(before)
    kept = Path(failed.value.remedy.removeprefix("see "))
    assert (kept.read_text(), kept.stat().st_mode & 0o777) == ("why", 0o600)
    kept.unlink()
