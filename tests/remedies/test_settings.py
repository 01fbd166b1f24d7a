"""Remedies that are settings of the pipeline file, followed: what docs/refusals.md has as refused is planned."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from fencepost.admin.plan import NO_PROVENANCE, Plan, plan_pipeline
from fencepost.engines.python.settings import ConsumerSettings
from fencepost.engines.spark.authentication import authentication
from fencepost.errors import UnsupportedGuarantee, Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.config.producer import Declaration
from fencepost.rules.producer import Acks, RequiredSetting, required_producer_settings
from fencepost.rules.refusals import examples
from fencepost.spec import load

UPSERT = {"mode": "upsert", "key": ["id"]}
BARE = {"provenance": False}
COPIES = {"format": "kafka", "options": {"topic": "orders"}}
ELSEWHERE = {"format": "kafka", "options": {"topic": "copies"}}


@dataclass(frozen=True)
class Case:
    """What is refused, what its remedy says, and the file with each of the ways that it names."""

    wrong: dict[str, Any]
    remedy: str
    mended: tuple[dict[str, Any], ...] = ({},)


def _least(**options: Any) -> dict[str, Any]:
    return {"guarantee": "at-least-once", "options": {**UPSERT, **options}}


FOLLOWED = {
    "`minPartitions: 8`": Case({"kafka": {"minPartitions": 8}}, "remove it"),
    "`maxRecordsPerPartition: 1000`": Case(
        {"kafka": {"maxRecordsPerPartition": 1000}}, "set batch.records", ({"batch": {"records": 1000}},)
    ),
    "`asyncProgressTrackingEnabled: true`": Case({"spark": {"asyncProgressTrackingEnabled": True}}, "remove it"),
    "`failOnDataLoss: false`": Case({"source": {"failOnDataLoss": False}}, "remove it"),
    "`isolation.level: read_uncommitted`": Case({"kafka": {"isolation.level": "read_uncommitted"}}, "remove it"),
    "`spark.speculation: true`": Case({"spark": {"spark.speculation": True}}, "remove it"),
    "upsert without provenance or `order_by`": Case(
        _least(**BARE), "leave provenance on, or give order_by", (_least(), _least(order_by="n", **BARE))
    ),
    "`tombstones: delete`": Case(_least(tombstones="delete"), "leave tombstones: keep", (_least(tombstones="keep"),)),
    "reading and writing one topic": Case({"sink": COPIES}, "write to another topic", ({"sink": ELSEWHERE},)),
}
NOT_HERE = {
    "a sink that may forget": "no sink of ours does: the rule is there for sinks of others",
    "a sink without positions": "no sink of ours is: the rule is there for sinks of others",
    "replication factor 1": "of a topic, with brokers: tests/remedies/test_topics.py",
    "`min.insync.replicas` above the replicas": "of a topic, with brokers: tests/remedies/test_topics.py",
    "unclean leader election": "of a topic, with brokers: tests/remedies/test_topics.py",
}


def _plan(folder: Path, parts: dict[str, Any]) -> Plan:
    own = dict(parts)
    options = {"dsn": "host=127.0.0.1", "table": "orders", **own.pop("options", {})}
    source = {"topic": "orders", "value": "json", "schema": "id long, n long", **own.pop("source", {})}
    if "sink" in own:
        source = {"topic": "orders"}
    kafka = {"bootstrap.servers": "127.0.0.1:9092", **own.pop("kafka", {})}
    declared = {
        "name": "orders",
        "guarantee": "exactly-once",
        "engine": "python",
        "kafka": kafka,
        "source": source,
        "sink": {"format": "postgres", "options": options},
        **own,
    }
    path = folder / "fencepost.yml"
    path.write_text(yaml.safe_dump(declared))
    return plan_pipeline(load(path), offline=True)


@pytest.mark.parametrize("what", FOLLOWED)
def test_what_the_table_says_makes_the_plan_pass(tmp_path: Path, what: str) -> None:
    case = FOLLOWED[what]
    with pytest.raises(UnsupportedGuarantee) as refused:
        _plan(tmp_path, case.wrong)
    assert case.remedy in refused.value.remedy
    for mended in case.mended:
        assert _plan(tmp_path, mended).guarantee == mended.get("guarantee", "exactly-once")
    if refused.value.nearest:
        assert f"{refused.value.nearest} is possible here" in refused.value.remedy
        assert _plan(tmp_path, {**case.wrong, "guarantee": refused.value.nearest.value})
    else:
        for word in Guarantee:
            with pytest.raises(UnsupportedGuarantee):
                _plan(tmp_path, {**case.wrong, "guarantee": word.value})


def test_every_row_of_the_table_is_followed_or_says_why_not() -> None:
    assert {what for what, _ in examples()} == FOLLOWED.keys() | NOT_HERE.keys()
    said = {what: {finding.remedy for finding in findings} for what, findings in examples()}
    assert all(any(case.remedy in remedy for remedy in said[what]) for what, case in FOLLOWED.items())


PRODUCERS = [
    (word, required)
    for word, acks in [
        (Guarantee.AT_MOST_ONCE, Acks.NOBODY),
        (Guarantee.AT_LEAST_ONCE, Acks.LEADER),
        (Guarantee.EXACTLY_ONCE, Acks.QUORUM),
    ]
    for required in required_producer_settings(word, acks)
]


@pytest.mark.parametrize(("word", "required"), PRODUCERS, ids=lambda one: getattr(one, "name", str(one)))
def test_a_producers_setting_is_taken_with_each_value_that_the_remedy_names(
    word: Guarantee, required: RequiredSetting
) -> None:
    declared = Declaration.of(word, "leader" if word is Guarantee.AT_LEAST_ONCE else None, None, True)
    with pytest.raises(Usage, match="would break the guarantee") as refused:
        declared.settings({required.name: "6"})
    named = refused.value.remedy.partition("set it to ")[2]
    assert sorted(named.split(" or ")) == sorted(required.allowed) if named else not required.allowed
    for value in named.split(" or ") if named else ():
        declared.settings({required.name: value})
    declared.settings({})


@pytest.mark.parametrize("name", ["enable.auto.commit", "enable.auto.offset.store", "auto.offset.reset", "group.id"])
def test_a_consumers_setting_may_have_the_value_that_the_remedy_names(name: str) -> None:
    def settings(given: dict[str, str]) -> object:
        return ConsumerSettings(given, "orders", "readers", Guarantee.AT_LEAST_ONCE).librdkafka()

    with pytest.raises(Usage) as refused:
        settings({name: "largest" if name == "auto.offset.reset" else "true1"})
    value = refused.value.remedy.removeprefix("remove it: it is ").removesuffix(" here")
    assert settings({name: value}) == settings({})


def test_a_master_that_needs_a_secret_is_taken_with_each_setting_that_the_remedy_names() -> None:
    with pytest.raises(Usage) as refused:
        authentication({}, "spark://cluster:7077")
    set_, _, instead = refused.value.remedy.removeprefix("set ").partition(", or ")
    secret, off = set_.partition(" ")[0].rstrip(":"), instead.partition(" where ")[0]
    assert authentication({secret: "x" * 32}, "spark://cluster:7077") == {"spark.authenticate": "true"}
    assert authentication(dict([off.split(": ")]), "spark://cluster:7077") == {}


@pytest.mark.parametrize(
    ("wrong", "mended"),
    [
        (
            {"sink": ELSEWHERE, "on_error": "dead_letter"},
            {"sink": ELSEWHERE, "on_error": "dead_letter", "dead_letters": {"topic": "dead"}},
        ),
        ({"options": BARE, "on_error": "dead_letter"}, {"on_error": "dead_letter"}),
    ],
    ids=["a topic", "no provenance"],
)
def test_dead_letters_that_cannot_be_had_are_refused_by_the_plan(
    tmp_path: Path, wrong: dict[str, Any], mended: dict[str, Any]
) -> None:
    with pytest.raises(Usage, match="on_error: dead_letter") as refused:
        _plan(tmp_path, wrong)
    advised = "name one that is there: dead_letters: {topic: NAME}" if "sink" in wrong else "leave provenance on"
    assert advised in refused.value.remedy
    _plan(tmp_path, mended)


def test_a_warning_goes_with_what_it_advises(tmp_path: Path) -> None:
    assert _plan(tmp_path, {"options": BARE}).warnings == [NO_PROVENANCE]
    assert _plan(tmp_path, {}).warnings == []
