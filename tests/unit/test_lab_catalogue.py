"""The catalogue: every row makes sense, and what is asked for by name, fault or all is found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from fencepost.errors import Usage
from fencepost.lab.catalogue import catalogue, chosen, scenarios
from fencepost.lab.pipelines.at_a_step import FAULTS
from fencepost.lab.pipelines.between_runs import DEEDS
from fencepost.lab.scenario import Deed, Engine, Row
from fencepost.lab.scenarios.stories import STORIES
from fencepost.sinks import registry

ROW: Mapping[str, Any] = {
    "name": "one",
    "fault": 7,
    "tells": "it dies",
    "engine": "python",
    "sink": ["postgres", "kafka"],
    "guarantee": "exactly-once",
    "inject": {"do": "kill", "step": "written"},
    "control": {"guarantee": "at-least-once"},
}


def test_a_row_stands_for_a_scenario_of_each_sink_and_guarantee() -> None:
    row = Row.model_validate({**ROW, "guarantee": ["at-most-once", "exactly-once"]})
    assert [one.name for one in row.scenarios()] == [
        "one-postgres-python-amo",
        "one-postgres-python-eo",
        "one-kafka-python-amo",
        "one-kafka-python-eo",
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"inject": {"do": "kill"}},
        {"inject": {"do": "add-partitions", "step": "written"}},
        {"inject": {"do": "cut", "step": "started"}},
        {"inject": {"do": "late", "step": "started"}},
        {"inject": {"do": "join", "step": "written", "request": "api:JOIN_GROUP"}},
        {"inject": {"do": "explode", "step": "started"}},
        {"control": None},
        {"control": {}},
        {"control": {"guarantee": "at-least-once", "recipe": "plain"}},
        {"story": "zombie"},
        {"fault": 40},
        {"nmae": "one"},
    ],
)
def test_a_row_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Row.model_validate({**ROW, **wrong})


def test_every_control_says_what_is_weaker() -> None:
    told = {scenario.control.setting for scenario in scenarios().values() if scenario.control}
    assert "a plain consumer loop, asynchronous commit after the batch" in told
    assert "exactly-once, with a writer that takes the end of the rows for the end of the input" in told
    for scenario in scenarios().values():
        assert scenario.control is None or scenario.control.setting != str(scenario.guarantee), scenario.name


def test_every_name_is_there_once() -> None:
    names = [scenario.name for row in catalogue().rows for scenario in row.scenarios()]
    assert len(names) == len(set(names)) == len(scenarios())


def test_what_rows_name_exists() -> None:
    for scenario in scenarios().values():
        if scenario.story:
            assert scenario.story in STORIES
            assert scenario.engine is Engine.PRODUCER
        else:
            assert scenario.sink in registry.names()


def test_a_row_names_the_one_for_the_gate_rightly() -> None:
    for row in catalogue().rows:
        assert not row.quick or any(one.quick for one in row.scenarios()), row.name


def test_every_deed_can_be_done() -> None:
    assert {*FAULTS, *DEEDS} == set(Deed)


def test_scenarios_are_found_by_name_row_and_fault() -> None:
    assert [one.name for one in chosen(["zombie-producer"])] == ["zombie-producer"]
    assert {one.row for one in chosen(["dies-after-the-write"])} == {"dies-after-the-write"}
    assert {one.fault for one in chosen([], fault=7)} == {7}
    assert chosen([], everything=True) == list(scenarios().values())


@pytest.mark.parametrize(("names", "fault"), [(["nothing"], None), ([], 23), ([], None)])
def test_what_is_not_there_is_told(names: list[str], fault: int | None) -> None:
    with pytest.raises(Usage, match="fencepost lab list"):
        chosen(names, fault=fault)


def test_a_fault_is_played_or_it_is_said_why_not() -> None:
    told = {row.fault for row in catalogue().rows} | {one.fault for one in catalogue().undone}
    assert set(range(1, 40)) - told == set()
