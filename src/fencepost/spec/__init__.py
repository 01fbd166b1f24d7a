"""What a pipeline is, and how it is read from its file."""

from fencepost.spec.file import FILE_NAME, find, load, parse
from fencepost.spec.parts import (
    BatchSpec,
    EngineName,
    KafkaOptions,
    OnError,
    PipelineSpec,
    PostgresOptions,
    Seconds,
    SinkFormat,
    SinkSpec,
    SourceSpec,
    TransformSpec,
    ValueFormat,
)

__all__ = [
    "FILE_NAME",
    "BatchSpec",
    "EngineName",
    "KafkaOptions",
    "OnError",
    "PipelineSpec",
    "PostgresOptions",
    "Seconds",
    "SinkFormat",
    "SinkSpec",
    "SourceSpec",
    "TransformSpec",
    "ValueFormat",
    "find",
    "load",
    "parse",
]
