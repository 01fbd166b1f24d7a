"""Which requests a rule takes, how often, and how it travels to another process."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Usage
from fencepost.lab.proxy import Action, Api, Direction, Message, Rule, Statement, Witness
from fencepost.lab.proxy.rules import ArmedRule, Call, RuleSet

PRODUCE = Call("broker-1", "orders", (Api.PRODUCE,))
COMMIT = Call("db", "writer", (Message.EXECUTE, Statement("commit")))
REQUEST, RESPONSE = Direction.REQUEST, Direction.RESPONSE


def dropping(**conditions: Any) -> ArmedRule:
    return ArmedRule(Rule(action=Action.DROP, **conditions))


@pytest.mark.parametrize(
    ("conditions", "call"),
    [
        ({}, PRODUCE),
        ({"request": Api.PRODUCE}, PRODUCE),
        ({"client": "orders", "listener": "broker-1"}, PRODUCE),
        ({"request": Statement("COMMIT")}, COMMIT),
        ({"request": Message.EXECUTE}, COMMIT),
    ],
)
def test_a_rule_takes_what_meets_every_condition(conditions: dict[str, Any], call: Call) -> None:
    assert dropping(**conditions).takes(REQUEST, call)


@pytest.mark.parametrize(
    ("conditions", "call"),
    [
        ({"request": Api.FETCH}, PRODUCE),
        ({"request": Api.PRODUCE, "client": "order"}, PRODUCE),
        ({"request": Api.PRODUCE, "listener": "broker-2"}, PRODUCE),
        ({"direction": RESPONSE}, PRODUCE),
        ({"request": Statement("ROLLBACK")}, COMMIT),
        ({"request": Message.QUERY}, COMMIT),
        ({"request": Api.FETCH}, Call("db", "", (Message.QUERY, Statement("FETCH")))),
    ],
)
def test_a_rule_leaves_what_misses_one(conditions: dict[str, Any], call: Call) -> None:
    assert not dropping(**conditions).takes(REQUEST, call)


def test_skip_counts_matches_only_and_count_ends_it() -> None:
    rule = dropping(request=Api.PRODUCE, skip=2, count=2)
    fetch = Call("broker-1", "orders", (Api.FETCH,))
    calls = [PRODUCE, fetch, PRODUCE, PRODUCE, fetch, PRODUCE, PRODUCE]
    assert [rule.takes(REQUEST, call) for call in calls] == [False, False, False, True, False, True, False]


def test_a_cut_in_a_copy_fires_in_the_message_where_the_byte_lies() -> None:
    rule = dropping(request=Message.COPY_DATA, after_bytes=150)
    blocks = [Call("db", "", (Message.COPY_DATA,), range(at, at + 50)) for at in range(0, 300, 50)]
    assert [rule.takes(REQUEST, block) for block in blocks] == [False, False, False, True, False, False]


def test_a_released_rule_fires_no_more() -> None:
    rule = dropping()
    rule.release()
    assert not rule.takes(REQUEST, PRODUCE)


def test_the_first_rule_of_a_direction_takes_the_request() -> None:
    rules = RuleSet()
    answers = rules.add(Rule(action=Action.RESET, direction=RESPONSE))
    first = rules.add(Rule(action=Action.FORWARD, count=1))
    second = rules.add(Rule(action=Action.DROP))
    assert rules.first(REQUEST, PRODUCE) is rules.find(first)
    assert rules.first(REQUEST, PRODUCE) is rules.find(second)
    assert rules.first(RESPONSE, PRODUCE) is rules.find(answers)


def test_cleared_rules_fire_no_more_and_keep_their_witness() -> None:
    rules = RuleSet()
    number = rules.add(Rule(action=Action.DROP))
    rules.find(number).hit()
    rules.clear()
    assert rules.first(REQUEST, PRODUCE) is None
    assert rules.find(number).witness == Witness(hits=1, done=0)
    assert rules.add(Rule(action=Action.DROP)) != number


@pytest.mark.parametrize(
    "fields",
    [
        {"action": Action.DELAY},
        {"action": Action.DROP, "ms": 5},
        {"action": Action.DROP, "count": 0},
        {"action": Action.DROP, "skip": -1},
        {"action": Action.RESET, "after_bytes": 5},
        {"action": Action.RESET, "request": Message.COPY_DATA, "after_bytes": -1},
        {"action": Action.RESET, "request": Message.COPY_DATA, "direction": RESPONSE},
        {"action": Action.RESET, "request": Message.TERMINATE, "direction": RESPONSE},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(Usage):
        Rule(**fields)


REQUESTS = st.one_of(
    st.none(),
    st.sampled_from(list(Api)),
    st.sampled_from([Message.QUERY, Message.EXECUTE, Message.STARTUP]),
    st.builds(Statement, st.sampled_from(["COMMIT", "fetch", "Insert"])),
)
RULES = st.builds(
    Rule,
    action=st.sampled_from([action for action in Action if action is not Action.DELAY]),
    direction=st.sampled_from(list(Direction)),
    request=REQUESTS,
    client=st.none() | st.text(max_size=5),
    listener=st.none() | st.text(max_size=5),
    skip=st.integers(0, 9),
    count=st.none() | st.integers(1, 9),
)


@given(RULES)
def test_a_rule_arrives_in_another_process_as_it_was_sent(rule: Rule) -> None:
    assert Rule.from_json(json.loads(json.dumps(rule.to_json()))) == rule


@pytest.mark.parametrize(
    "sent",
    [
        {},
        {"action": "explode"},
        {"action": "drop", "request": "PRODUCE"},
        {"action": "drop", "request": "api:NOTHING"},
        {"action": "drop", "request": 5},
        {"action": "drop", "direction": "sideways"},
        {"action": "drop", "clients": "x"},
        {"action": "drop", "skip": "x"},
    ],
)
def test_a_rule_that_cannot_be_read_is_refused(sent: dict[str, Any]) -> None:
    with pytest.raises(Usage):
        Rule.from_json(sent)
