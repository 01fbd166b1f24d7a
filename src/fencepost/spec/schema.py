"""The JSON Schema of the pipeline file: `sink.options` are those of the chosen `sink.format`."""

from __future__ import annotations

from typing import Any

from fencepost.sinks import registry
from fencepost.spec.parts import PipelineSpec


def json_schema() -> dict[str, Any]:
    """With the options of every registered sink. Raises Usage where one does not load."""
    schema = PipelineSpec.model_json_schema()
    del schema["properties"]["folder"]  # of the file itself: no key in it
    parts = schema["$defs"]
    del parts["SinkOptions"]
    sink = parts["SinkSpec"]
    sink["properties"]["options"] = {"type": "object"}
    sink["allOf"] = []
    for name in registry.names():
        options = registry.kind(name).options.model_json_schema(ref_template=f"#/$defs/{name}.{{model}}")
        parts |= {f"{name}.{model}": found for model, found in options.pop("$defs", {}).items()}
        parts[f"{name}.options"] = options
        chosen = {"properties": {"format": {"const": name}}, "required": ["format"]}
        sink["allOf"].append({"if": chosen, "then": {"properties": {"options": {"$ref": f"#/$defs/{name}.options"}}}})
    return schema
