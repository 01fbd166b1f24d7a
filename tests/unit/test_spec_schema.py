"""The JSON Schema that `fencepost spec --schema` prints: as an editor reads it, by a validator of a few lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import pytest
import yaml

from fencepost.sinks import registry
from fencepost.spec.schema import json_schema

TYPES: dict[str, Any] = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}
GOOD: dict[str, Any] = {
    "name": "shop",
    "guarantee": "exactly-once",
    "source": {"topic": "orders", "start": {0: 120}},
    "sink": {"format": "postgres", "options": {"table": "orders", "mode": "upsert", "key": ["id"]}},
}


def problems(value: Any, schema: Any, whole: Any) -> Iterator[str]:
    """What the schema says against the value, as far as its words are used in ours."""
    if "$ref" in schema:
        yield from problems(value, whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole)
    kinds = schema.get("type", [])
    if kinds and not any(of_type(value, one) for one in ([kinds] if isinstance(kinds, str) else kinds)):
        yield f"{value!r} is no {kinds}"
        return
    if "enum" in schema and value not in schema["enum"]:
        yield f"{value!r} is none of {schema['enum']}"
    if "const" in schema and value != schema["const"]:
        yield f"{value!r} is not {schema['const']!r}"
    if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
        yield f"{value!r} does not match"
    if isinstance(value, int | float) and not isinstance(value, bool) and value < schema.get("minimum", value):
        yield f"{value} is too low"
    if "anyOf" in schema and all(any(problems(value, one, whole)) for one in schema["anyOf"]):
        yield f"{value!r} is none of the forms"
    for one in schema.get("allOf", []):
        if not any(problems(value, one["if"], whole)):
            yield from problems(value, one["then"], whole)
    if isinstance(value, list):
        for one in value:
            yield from problems(one, schema.get("items", {}), whole)
    if isinstance(value, dict):
        yield from keys(value, schema, whole)


def keys(value: dict[str, Any], schema: Any, whole: Any) -> Iterator[str]:
    known = schema.get("properties", {})
    yield from (f"{name} is missing" for name in schema.get("required", []) if name not in value)
    for name, below in value.items():
        other = schema.get("additionalProperties", True)
        if name in known:
            yield from problems(below, known[name], whole)
        elif other is False:
            yield f"{name}: no such key"
        elif isinstance(other, dict):
            yield from problems(below, other, whole)


def of_type(value: Any, kind: str) -> bool:
    if kind in ("boolean", "null"):
        return value is None if kind == "null" else isinstance(value, bool)
    return isinstance(value, TYPES[kind]) and not isinstance(value, bool)


def found(**changed: Any) -> list[str]:
    schema = json_schema()
    return list(problems({**GOOD, **changed}, schema, schema))


def sink(format_: str, **options: Any) -> dict[str, Any]:
    return {"sink": {"format": format_, "options": options}}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        sink("postgres", table="t", ledger_retention="30m"),
        sink("postgres", table="t", ledger_retention=7200),
        sink("kafka", topic="bills", topics=["others"]),
        {"kafka": {"acks": 1, "enable.idempotence": True}, "batch": {"every": "500ms", "records": 1000}},
        {"source": {"topics": ["a", "b"], "start": {"a": {0: 1}}, "failOnDataLoss": False}},
    ],
)
def test_a_good_document_passes(changed: dict[str, Any]) -> None:
    assert found(**changed) == []


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        (sink("postgres", topic="t"), "table is missing"),
        (sink("postgres", table="t", topic="bills"), "topic: no such key"),
        (sink("kafka", table="t"), "topic is missing"),
        (sink("kafka", topic="t", mode="upsert"), "mode: no such key"),
        (sink("postgres", table="t", mode="replace"), "none of"),
        (sink("postgres", table="t", ledger_retention="a week"), "none of the forms"),
        (sink("paper"), "none of"),
        ({"sink": {"format": "postgres"}}, "options is missing"),
        ({"guarantee": "twice"}, "none of"),
        ({"folder": "."}, "folder: no such key"),
        ({"source": {"topic": "orders", "shema": "id long"}}, "shema: no such key"),
    ],
)
def test_a_bad_document_is_told(changed: dict[str, Any], problem: str) -> None:
    assert problem in " ".join(found(**changed))


def test_it_has_the_options_of_every_sink_that_is_registered() -> None:
    schema = json_schema()
    for name in registry.names():
        own = schema["$defs"][f"{name}.options"]["properties"]
        fields = registry.kind(name).options.model_fields
        assert own.keys() >= {field.alias or name for name, field in fields.items()}
    assert schema["$defs"]["SinkSpec"]["properties"]["format"]["enum"] == registry.names()


def test_the_file_that_init_writes_passes() -> None:
    text = files("fencepost.templates").joinpath("fencepost.yml").read_text().format(name="shop")
    schema = json_schema()
    assert list(problems(yaml.safe_load(text), schema, schema)) == []
