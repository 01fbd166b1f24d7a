"""Somebody's own pipeline under the lab's faults: their transform, schema and mode, on the lab's stack and target.

Its events are the lines of a file that they give, or are made from the schema. What landed is counted by the audit,
because only the pipeline knows what becomes of its events.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from fencepost.audit.audit import audit
from fencepost.audit.compare import Comparison, Verdict
from fencepost.audit.findings import Audit
from fencepost.errors import Unreachable, Usage
from fencepost.guarantee import Anomaly, Guarantee
from fencepost.lab.pipelines.flow import PARTITIONS, Flow
from fencepost.lab.scenario import Deed, Scenario
from fencepost.lab.scenarios.field import Field
from fencepost.machine.counting import count
from fencepost.producing.sending import Event
from fencepost.producing.sources.files import Files
from fencepost.producing.sources.layouts import Layout
from fencepost.producing.sources.lines import Reading
from fencepost.producing.sources.source import BrokenLine
from fencepost.rows.json_fields import parse_fields
from fencepost.sinks import registry
from fencepost.sinks.demo import CanBeShown
from fencepost.spec import PipelineSpec, load

MOST = 10_000  # events of a file
_PLACES = ("dsn", "path", "table", "warehouse", "topic", "topics", "group")  # where their rows and positions are
_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
Make = Callable[[int], Any]
# a value of the n-th event, by Arrow's test for its type
_MAKERS: tuple[tuple[Callable[[pa.DataType], bool], Make], ...] = (
    (pa.types.is_boolean, lambda n: n % 2 == 0),
    (pa.types.is_int8, lambda n: n % 100),
    (pa.types.is_integer, lambda n: n),
    (pa.types.is_floating, lambda n: n + 0.5),
    (pa.types.is_decimal, lambda n: n % 10),
    (pa.types.is_date, lambda n: str(date(2026, 1, 1) + timedelta(days=n % 365))),
    (pa.types.is_timestamp, lambda n: (_BEGAN + timedelta(seconds=n)).isoformat()),
    (pa.types.is_binary, lambda _n: "AAAA"),
)


@dataclass(frozen=True)
class Theirs:
    """A pipeline file, and the events that somebody wants it to carry."""

    spec: PipelineSpec
    lines: tuple[bytes, ...] = ()  # absent: made from the schema
    words: tuple[str, ...] = ()  # of the command line that named them

    @classmethod
    def load(cls, path: Path, data: Path | None) -> Theirs:
        """Raises Usage for a pipeline that the lab has no place for."""
        spec = load(path)
        if not isinstance(registry.kind(spec.sink.format), CanBeShown):
            raise Usage(f"sink.format: {spec.sink.format}: the lab has no target of that kind")
        if spec.checkpoint is not None:
            raise Usage(f"{path}: the lab counts events, and rows of a stream that keeps state do not say theirs")
        if len(spec.source.origins) > 1 or len(spec.sink.options.topics_written) > 1:
            raise Usage(f"{path}: the lab plays pipelines from one topic into one target", "leave one of each")
        lines = _lines(data) if data else ()
        words = ("--pipeline", str(path), *(("--data", str(data)) if data else ()))
        return cls(spec, lines, words)

    def fits(self, scenario: Scenario) -> bool:
        """Can the scenario be played with it? Those between two runs look for ids that only the lab's events have, and
        what cuts the input is a transform of its own."""
        spec = self.spec
        theirs = (spec.engine.value, spec.sink.format, spec.guarantee)
        same = (scenario.engine.value, scenario.sink, scenario.guarantee) == theirs
        weaker = scenario.control is not None and scenario.control.recipe is None
        deed = scenario.inject.do if scenario.inject else None
        return same and weaker and deed is not None and deed.at_a_step and deed is not Deed.CUT_INPUT

    def kept(self, topic: str) -> dict[str, Any]:
        """What of the file is played with this topic: nothing that names another one, or where they keep theirs."""
        given = self.spec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        options = {name: one for name, one in given["sink"]["options"].items() if name not in _PLACES}
        source = {name: one for name, one in given["source"].items() if name not in ("topics", "start")}
        kept = {"spark": _harmless(given.get("spark", {})), "sink": {"options": options}}
        kept |= {name: given[name] for name in ("on_error", "dead_letters") if name in given}
        if self.spec.dead_letters.topic:
            kept["dead_letters"] = {**given["dead_letters"], "topic": letters_of(topic)}
        if given.get("transform"):
            kept["transform"] = self._transform(given["transform"])
        return {**kept, "source": {**source, "topic": topic}}

    def _transform(self, given: Mapping[str, str]) -> Mapping[str, str]:
        """A file's name is relative to the file that they wrote."""
        folder = Path(self.spec.folder)
        return {
            kind: str(folder / text) if kind != "sql" and text.rpartition(":")[0].endswith(".py") else text
            for kind, text in given.items()
        }

    def value(self, number: int) -> bytes:
        """Of one event."""
        if self.lines:
            return self.lines[number % len(self.lines)]
        if not self._fields:
            return b"event %d" % number
        return json.dumps({name: make(number) for name, make in self._fields.items()}).encode()

    @cached_property
    def _fields(self) -> Mapping[str, Make]:
        return dict(_makers(self.spec.source.fields or ""))


def letters_of(topic: str) -> str:
    """Where the dead letters of a pipeline into Kafka go."""
    return f"{topic}_dead"


def _lines(data: Path) -> tuple[bytes, ...]:
    """As `fencepost produce --file` reads them, whatever they hold; the first ones, more than a trial sends."""
    try:
        events = Files(data, Reading(Layout.TEXT)).open(None)
        lines = tuple(event.value or b"" for event in islice(events, MOST))
    except BrokenLine as error:
        raise Usage(error.message, error.remedy) from error
    if not lines:
        raise Usage(f"{data} holds no line", "give one event a line")
    return lines


def _makers(schema: str) -> Iterator[tuple[str, Make]]:
    for field in parse_fields(schema):
        yield field.name, next((make for fits, make in _MAKERS if fits(field.type)), str)


class TheirFlow(Flow):
    """The same, with what the file says; only its name, cluster, topic and target are the lab's."""

    def __init__(self, field: Field, folder: Path, scenario: Scenario, theirs: Theirs) -> None:
        self._theirs = theirs
        super().__init__(field, folder, scenario)

    def make_topic(self) -> None:
        super().make_topic()
        if letters := self._theirs.spec.dead_letters.topic and letters_of(self.topic):
            self._create(letters, PARTITIONS)

    def declared(self, guarantee: Guarantee, *, fail_on_data_loss: bool = True) -> Mapping[str, Any]:
        ours = super().declared(guarantee, fail_on_data_loss=fail_on_data_loss)
        kept = self._theirs.kept(self.topic)
        sink = {**ours["sink"], "options": {**kept["sink"]["options"], **ours["sink"]["options"]}}
        spark = {"spark": {**kept["spark"], **ours["spark"]}} if "spark" in ours else {}
        own = {name: ours[name] for name in ("name", "guarantee", "engine", "kafka", "batch")}
        rest = {name: part for name, part in kept.items() if name != "spark"}
        return {**own, **rest, **spark, "sink": sink}

    def event(self, id_: int) -> Event:
        return super().event(id_)._replace(value=self._theirs.value(id_))

    def counted(self, _before: list[int], *, stopped: str) -> tuple[Comparison, Counter[Anomaly]]:
        """By the audit of the pipeline, which has to see everything: up to the end of the topic, event by event."""
        if stopped:
            raise Unreachable(f"it stopped with {stopped}")
        found = audit(self.folder / "fencepost.yml")
        if found.verdict is not Verdict.BROKEN and (why := _unseen(found)):
            raise Unreachable(f"the audit could not decide: {why}")
        return Comparison(len(self.sent), found.hops[-1].landed), Counter(found.totals)


def _unseen(found: Audit) -> str:
    """What an audit that finds nothing wrong has not looked at."""
    waiting = sum(one["waiting"] for one in found.partitions)
    unread = f"not read: {count(waiting, 'offset')} of the topic" if waiting else ""
    return found.why_undecided or unread or "; ".join(found.not_checked)


def _harmless(spark: Mapping[str, str]) -> dict[str, str]:
    """Settings of how Spark works; not those of where it is, what it may read there, and with which password."""
    return {name: value for name, value in spark.items() if name.startswith("spark.sql.") and ".catalog." not in name}
