"""Which sink an audit is about: by the pipeline file, or by a word and a name."""

from __future__ import annotations

import pytest

from fencepost.audit.request import AuditRequest, of_pipeline, sink_named
from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.model import Mode
from fencepost.sinks import registry
from fencepost.sinks.auditing import AnswersReceipts, CanBeAudited, LandedRecords, Relation, SparkRead
from fencepost.sinks.handlers import RunsHandlers, TakesOutputs
from fencepost.spec import PipelineSpec

DSN = "host=db password=s3cret"


@pytest.mark.parametrize("written", ["topic:copy", "kafka:copy"])
def test_a_topic_is_named_by_either_word(written: str) -> None:
    sink = sink_named(written, lambda: DSN)
    assert (sink.format, sink.options.name) == ("kafka", "copy")
    request = AuditRequest(Guarantee.EXACTLY_ONCE, {}, "orders", sink)
    assert request.job is not None
    assert request.merged is None


def test_somebody_elses_table_may_have_any_name() -> None:
    sink = sink_named("postgres:shop.my orders", lambda: DSN)
    assert (sink.format, sink.options.name) == ("postgres", "shop.my orders")
    assert "s3cret" not in repr(AuditRequest(Guarantee.EXACTLY_ONCE, {}, "orders", sink))


@pytest.mark.parametrize("written", ["orders", "postgres:", ":orders", "oracle:orders"])
def test_other_words_are_refused_with_those_that_are_there(written: str) -> None:
    with pytest.raises(Usage) as refused:
        sink_named(written, lambda: DSN)
    assert "write postgres:TABLE or topic:NAME" in refused.value.remedy


def test_what_is_no_topic_is_refused() -> None:
    with pytest.raises(Usage, match="not a valid topic name"):
        sink_named("topic:a/b", lambda: DSN)


def test_a_pipeline_is_audited_up_to_its_position_whatever_its_sink() -> None:
    given = {"name": "p", "guarantee": "exactly-once", "engine": "python", "source": {"topic": "orders"}}
    keyed = {"table": "t", "mode": "upsert", "key": ["id"], "tombstones": "delete"}
    table = of_pipeline(PipelineSpec.model_validate({**given, "sink": {"format": "postgres", "options": keyed}}))
    assert (table.pipeline, table.mode, table.deletes) == ("p", Mode.UPSERT, True)
    assert table.merged is table.spec
    topic = of_pipeline(PipelineSpec.model_validate({**given, "sink": {"format": "kafka", "options": {"topic": "t"}}}))
    assert (topic.pipeline, topic.mode, topic.deletes) == ("p", Mode.APPEND, False)


def test_what_reads_a_sink_does_not_show_its_password() -> None:
    read = SparkRead("jdbc", {"password": "s3cret"})
    assert "s3cret" not in repr((read, Relation(lambda: None, lambda: [read]), LandedRecords("copy")))


def test_kinds_are_found_by_what_they_can_do() -> None:
    assert (registry.able(RunsHandlers)[0], registry.able(TakesOutputs)[0]) == ("postgres", "kafka")
    assert all(isinstance(registry.kind(name), CanBeAudited) for name in ("postgres", "kafka"))
    assert not isinstance(registry.kind("kafka"), AnswersReceipts)
    with pytest.raises(Usage, match="no sink is registered"):
        registry.able(Usage)
