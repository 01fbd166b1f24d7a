"""A pipeline, declared: frozen models, each of which refuses what makes no sense by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.rules.brake import Brake
from fencepost.sinks import registry
from fencepost.sinks.kind import SinkJob, SinkKind
from fencepost.sinks.options import Seconds, SinkOptions, TopicName

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False)


class ValueFormat(StrEnum):
    BYTES = "bytes"
    STRING = "string"
    JSON = "json"


class OnError(StrEnum):
    STOP = "stop"
    DEAD_LETTER = "dead_letter"


class SourceSpec(_Part):
    """What is read, where to begin where no position is stored, and what its values are."""

    topic: TopicName | None = Field(None, description="the only one")
    topics: tuple[TopicName, ...] = Field((), description="several, whose values have the same schema")
    start: Literal["earliest", "latest"] | datetime | dict[int, int] | dict[str, dict[int, int]] = "earliest"
    value: ValueFormat = ValueFormat.BYTES
    fields: str | None = Field(
        None, alias="schema", description='of JSON values, as in "id long, amount decimal(10,2)"'
    )
    fail_on_data_loss: bool = Field(
        True, alias="failOnDataLoss", description="false: skip records that were deleted before they were read"
    )

    @field_validator("start", mode="wrap")
    @classmethod
    def _start(cls, given: object, check: ValidatorFunctionWrapHandler) -> object:
        """One problem with one text, instead of one for each of the forms that it could have had."""
        try:
            start = given if isinstance(given, bool | int | float) or _is_number(given) else check(given)
        except ValidationError:
            start = None
        zoned = isinstance(start, datetime) and start.tzinfo is not None
        offsets = isinstance(start, dict) and _each_once(given, start) and _possible(start)
        if not (zoned or offsets or start in ("earliest", "latest")):
            raise PydanticCustomError(
                "start", "earliest, latest, a time with a zone, or offsets: {0: 120, 1: 7}, of several topics by topic"
            )
        return start

    @model_validator(mode="after")
    def _named_once(self) -> SourceSpec:
        if (self.topic is None) == (not self.topics):
            raise PydanticCustomError("topic", "give topic, or topics with a list of them")
        twice = sorted({topic for topic in self.topics if self.topics.count(topic) > 1})
        if twice:
            raise PydanticCustomError("topics", f"{', '.join(twice)} is there twice")
        return self

    @model_validator(mode="after")
    def _start_of_what_is_read(self) -> SourceSpec:
        if not isinstance(self.start, dict):
            return self
        named = {name for name, offsets in self.start.items() if isinstance(offsets, dict)}
        if len(self.origins) > 1 and len(named) < len(self.start):
            raise PydanticCustomError("start", "start: offsets of several topics go by topic: {orders: {0: 120, 1: 7}}")
        if named - set(self.origins):
            raise PydanticCustomError(
                "start", f"start: {', '.join(sorted(map(str, named - set(self.origins))))} is not read"
            )
        return self

    @model_validator(mode="after")
    def _fields_with_json(self) -> SourceSpec:
        if self.fields and self.value is not ValueFormat.JSON:
            raise PydanticCustomError("schema", "a schema goes with value: json")
        return self

    @property
    def origins(self) -> tuple[str, ...]:
        """Every topic that is read."""
        return self.topics if self.topic is None else (self.topic,)

    def one(self, topic: str | None) -> str:
        """The topic that somebody means: the only one where none is named. Raises Usage for one that is not read."""
        meant = self.origins[0] if topic is None and len(self.origins) == 1 else topic
        if meant not in self.origins:
            given = f"--topic {topic}: the pipeline does not read it" if topic else "which topic?"
            raise Usage(given, f"give --topic with one of {', '.join(self.origins)}")
        return meant


class OutputMode(StrEnum):
    """When a stream that keeps state gives a row of a group: as Spark has it."""

    APPEND = "append"  # once, when the watermark says that nothing will be added to it
    UPDATE = "update"  # whenever it has changed


def _output_mode(given: object) -> object:
    if given == "complete":
        raise PydanticCustomError(
            "output_mode",
            "complete would write the whole table in every batch: use update, into a sink with mode: upsert",
        )
    return given


class WatermarkSpec(_Part):
    """How late an event may come, by its own time."""

    column: str = Field(description="of the events: a timestamp")
    delay: str = Field(description="as Spark has it: 10 minutes")


class TransformSpec(_Part):
    """What happens to the events on the way; exactly one of the three."""

    sql: str | None = Field(None, description="a query over the view `events`")
    spark: str | None = Field(None, description="module:function or file.py:function, DataFrame to DataFrame")
    arrow: str | None = Field(None, description="module:function or file.py:function, RecordBatch to RecordBatch")
    watermark: WatermarkSpec | None = Field(None, description="with checkpoint: of the events, before sql or spark")
    output_mode: Annotated[OutputMode, BeforeValidator(_output_mode)] | None = Field(
        None, description="with checkpoint: append, which is the default, or update"
    )

    @model_validator(mode="after")
    def _just_one(self) -> TransformSpec:
        if sum(kind is not None for kind in (self.sql, self.spark, self.arrow)) != 1:
            raise PydanticCustomError("transform", "give one of sql, spark or arrow")
        return self


def _registered(format_: str) -> str:
    if format_ not in registry.names():
        raise PydanticCustomError("format", registry.instead_of(format_))
    return format_


class SinkSpec(_Part):
    """Where the events go."""

    format: Annotated[str, AfterValidator(_registered)] = Field(
        json_schema_extra=lambda schema: schema.update(enum=[*registry.names()])
    )
    options: SerializeAsAny[SinkOptions]

    @field_validator("options", mode="wrap")
    @classmethod
    def _of_the_format(cls, given: object, _any: ValidatorFunctionWrapHandler, info: ValidationInfo) -> object:
        """Problems with the options of this format, not with those of every other."""
        if "format" not in info.data:
            return given  # which says what is wrong by itself
        return registry.kind(info.data["format"]).options.model_validate(given)

    @property
    def kind(self) -> SinkKind:
        return registry.kind(self.format)


class EngineName(StrEnum):
    SPARK = "spark"
    PYTHON = "python"  # one process, a member of a consumer group


class BatchSpec(_Part):
    """How much is delivered at once, and how often."""

    records: Annotated[int, Field(ge=1)] = 500_000
    every: Seconds = timedelta(seconds=1)
    small: Annotated[int, Field(ge=0, description="engine spark: so many records the driver delivers itself")] = 5_000


def _number(value: object) -> object:
    """A file's numbers are texts; true and false are none."""
    return str(value).lower() if isinstance(value, bool) else value


Share = Annotated[float, BeforeValidator(_number), Field(ge=0, le=1, allow_inf_nan=False)]


class DeadLetterSpec(_Part):
    """Where bad records go, and how many before the run stops."""

    topic: Annotated[TopicName | None, Field(description="of the same cluster, where the sink is Kafka")] = None
    max_share: Share | None = None  # absent: all but one may be bad


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # s3://bucket/x, dbfs:/x


def _checkpoint(path: str) -> str:
    plain = path.removeprefix("file://")
    if not plain.strip() or _SCHEME.match(plain) or "\0" in plain:
        raise PydanticCustomError(
            "checkpoint",
            "it must be a path: a takeover links and renames its files, which an object store cannot do",
        )
    return plain


_PLAIN_VALUES: dict[str, Any] = {"additionalProperties": {"type": ["string", "number", "boolean"]}}  # as written


class PipelineSpec(_Part):
    """One pipeline: its topics, a transform, a sink, and the guarantee under which it runs."""

    name: Name
    guarantee: Guarantee
    engine: EngineName = EngineName.SPARK
    kafka: dict[str, str] = Field(default_factory=dict, repr=False, json_schema_extra=_PLAIN_VALUES)
    source: SourceSpec
    transform: TransformSpec | None = None
    sink: SinkSpec
    on_error: OnError = OnError.STOP
    dead_letters: DeadLetterSpec = Field(DeadLetterSpec(), description="with on_error: dead_letter")
    batch: BatchSpec = BatchSpec()
    checkpoint: Annotated[str, AfterValidator(_checkpoint)] | None = Field(
        None, description="a folder for the state of a transform that keeps some: windows, dropDuplicates, joins"
    )
    spark: dict[str, str] = Field(default_factory=dict, repr=False, json_schema_extra=_PLAIN_VALUES)
    folder: str = Field(".", exclude=True, description="what the names of files are relative to")

    @model_validator(mode="after")
    def _a_sink_that_goes_with_it(self) -> PipelineSpec:
        able = self.sink.kind.capabilities
        if self.engine not in able.engines:
            why = f": {able.why_engines}" if able.why_engines else " for now"
            named = " or ".join(sorted(able.engines))
            raise PydanticCustomError("engine", f"sink.format: {self.sink.format} goes with engine: {named}{why}")
        self.sink.options.require_pipeline(self.name)
        return self

    @model_validator(mode="after")
    def _letters_where_there_are_any(self) -> PipelineSpec:
        topic = self.dead_letters.topic
        if self.dead_letters != DeadLetterSpec() and self.on_error is not OnError.DEAD_LETTER:
            raise PydanticCustomError("dead_letters", "dead_letters goes with on_error: dead_letter")
        if topic is not None and not self.sink.kind.capabilities.letter_topic:
            raise PydanticCustomError(
                "dead_letters",
                f"dead_letters.topic goes with sink.format: kafka; {self.sink.format} keeps them beside its target",
            )
        if topic in (*self.source.origins, *self.sink.options.topics_written):
            raise PydanticCustomError(
                "dead_letters", f"dead_letters.topic: {topic} is read or written by the pipeline already"
            )
        return self

    @model_validator(mode="after")
    def _state_where_it_can_be_kept(self) -> PipelineSpec:
        transform = self.transform
        if self.checkpoint is None:
            for name in ("watermark", "output_mode"):
                if transform is not None and getattr(transform, name) is not None:
                    raise PydanticCustomError("transform", f"transform.{name} goes with checkpoint: it means a stream")
            return self
        if self.engine is not EngineName.SPARK:
            raise PydanticCustomError("checkpoint", "checkpoint goes with engine: spark, which keeps the state")
        if transform is None or transform.arrow is not None:
            raise PydanticCustomError("checkpoint", "checkpoint goes with transform.sql or transform.spark")
        if self.on_error is not OnError.STOP:
            raise PydanticCustomError(
                "checkpoint", "checkpoint goes with on_error: stop: the state cannot leave out a record afterwards"
            )
        if not self.source.fail_on_data_loss:
            raise PydanticCustomError("checkpoint", "failOnDataLoss: false skips records that the state is to hold")
        return self

    @property
    def output_mode(self) -> OutputMode:
        """Of a stream that keeps state."""
        return (self.transform.output_mode if self.transform else None) or OutputMode.APPEND

    @property
    def brake(self) -> Brake | None:
        """A new one, for one run; None where the first bad record stops it."""
        return Brake(self.dead_letters.max_share) if self.on_error is OnError.DEAD_LETTER else None

    @property
    def reader_settings(self) -> dict[str, str]:
        """Everything that says how the topic is read, for the rules."""
        return {**self.kafka, **self.spark, "failOnDataLoss": str(self.source.fail_on_data_loss).lower()}

    @property
    def job(self) -> SinkJob:
        """What it asks of its sink."""
        return SinkJob(
            self.name,
            self.guarantee,
            self.sink.options,
            self.kafka,
            self.spark,
            dead_letters=self.on_error is OnError.DEAD_LETTER,
            letter_topic=self.dead_letters.topic,
            shared=self.engine is EngineName.PYTHON,
            streams=self.checkpoint is not None,
        )

    @field_validator("kafka", "spark", mode="before")
    @classmethod
    def _texts(cls, settings: object) -> object:
        if not isinstance(settings, Mapping):
            return settings
        if any(str(key).lower() in ("failondataloss", "kafka.failondataloss") for key in settings):
            raise PydanticCustomError("source", "failOnDataLoss belongs to the source: write it under source")
        return {str(key): _text(value) for key, value in settings.items()}


def _offsets(start: Mapping[Any, Any]) -> Iterator[int]:
    """Those of a start, of one topic or by topic."""
    for offset in start.values():
        yield from offset.values() if isinstance(offset, Mapping) else [offset]


def _possible(start: Mapping[Any, Any]) -> bool:
    return all(0 <= offset < 2**63 for offset in _offsets(start))


def _each_once(given: Any, start: Mapping[Any, Any]) -> bool:
    """Were no two keys the same number: 0 and "00"?"""
    return len(given) == len(start) and all(
        _each_once(below, start[name]) for name, below in given.items() if isinstance(start.get(name), Mapping)
    )


def _is_number(value: object) -> bool:
    """Pydantic would take it for seconds since 1970."""
    return isinstance(value, str) and re.fullmatch(r"[-+\s\d._eE]*", value) is not None


def _text(value: object) -> object:
    """YAML's true and 5 as Kafka and Spark write them."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value
