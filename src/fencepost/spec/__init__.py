"""What a pipeline is, and how it is read from its file."""

from fencepost.sinks.options import Seconds
from fencepost.spec.file import FILE_NAME, find, load, parse
from fencepost.spec.parts import (
    BatchSpec,
    EngineName,
    OnError,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    TransformSpec,
    ValueFormat,
)

__all__ = [
    "FILE_NAME",
    "BatchSpec",
    "EngineName",
    "OnError",
    "PipelineSpec",
    "Seconds",
    "SinkSpec",
    "SourceSpec",
    "TransformSpec",
    "ValueFormat",
    "find",
    "load",
    "parse",
]
