"""What a pipeline is, and how it is read from its file."""

from fencepost.sinks.options import Seconds
from fencepost.spec.file import FILE_NAME, Declared, find, load, own_stream, parse, spec_of
from fencepost.spec.parts import (
    BatchSpec,
    EngineName,
    OnError,
    OutputMode,
    PipelineSpec,
    SinkSpec,
    SourceSpec,
    TransformSpec,
    ValueFormat,
)

__all__ = [
    "FILE_NAME",
    "BatchSpec",
    "Declared",
    "EngineName",
    "OnError",
    "OutputMode",
    "PipelineSpec",
    "Seconds",
    "SinkSpec",
    "SourceSpec",
    "TransformSpec",
    "ValueFormat",
    "find",
    "load",
    "own_stream",
    "parse",
    "spec_of",
]
