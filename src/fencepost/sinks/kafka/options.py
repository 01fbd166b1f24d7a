"""`sink.options` of a Kafka sink."""

from __future__ import annotations

from pydantic import Field
from pydantic_core import PydanticCustomError

from fencepost.sinks.options import SinkOptions, TopicName


class KafkaOptions(SinkOptions):
    """Topics of the same cluster."""

    topic: TopicName
    topics: tuple[TopicName, ...] = Field((), description="others that the column `topic` may name")
    provenance: bool = Field(True, description="keep where each record came from, in the header fencepost.from")
    group: str = Field("", description="the pipeline's bare name: a handler with outputs kept the positions there")

    @property
    def name(self) -> str:
        return ", ".join(self.targets)

    @property
    def targets(self) -> tuple[str, ...]:
        """All of them, the one that is meant when none is named first."""
        return (self.topic, *(topic for topic in self.topics if topic != self.topic))

    @property
    def topics_written(self) -> tuple[str, ...]:
        return self.targets

    def require_pipeline(self, name: str) -> None:
        """In another group two writers could meet that nothing fences: the fence goes by the pipeline's name."""
        if self.group not in ("", name):
            raise PydanticCustomError("group", "sink.options.group can only be the pipeline's own name")
