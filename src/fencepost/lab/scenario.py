"""A scenario as data: which fault at which moment, under which guarantee, and the control that must show the anomaly.

A row of the catalogue stands for a scenario for each engine, sink and guarantee that it lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from itertools import product
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from fencepost.guarantee import Guarantee
from fencepost.model import Step

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,60}$")]
SHORT = {Guarantee.AT_MOST_ONCE: "amo", Guarantee.AT_LEAST_ONCE: "alo", Guarantee.EXACTLY_ONCE: "eo"}


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


def _listed(given: object) -> object:
    return given if isinstance(given, list | tuple) else [given]


class Engine(StrEnum):
    """What moves the events."""

    PRODUCER = "producer"
    PYTHON = "python"
    SPARK = "spark"


class Deed(StrEnum):
    """What is done to the run, and undone."""

    # at a step of a batch, where the run stands still
    KILL = "kill"  # the whole tree of processes, with -9
    LOSE_CHECKPOINT = "lose-checkpoint"  # the same, and what Spark had written down is removed
    STALL = "stall"  # it stands still, another run takes over and finishes, it goes on
    FAIL = "fail"  # the attempt raises, the process lives on
    CUT_INPUT = "cut-input"  # what comes before the sink fails in the middle of the rows, once
    KILL_EXECUTOR = "kill-executor"  # of Spark, in a process of its own, with -9
    JOIN = "join"  # another member joins the group, and is given the partition once the batch is done
    OUTLAST = "outlast"  # the same, but the batch takes longer than the group waits for it
    CUT = "cut"  # one request of Kafka's or PostgreSQL's wire, or its answer
    LATE = "late"  # one request of Kafka's wire arrives behind those after it, and the process is killed
    KILL_DATABASE = "kill-database"
    STOP_DATABASE = "stop-database"  # it stands still for longer than a member of a group may say nothing
    # between two runs
    DELETE_RECORDS = "delete-records"  # retention, past the position
    RECREATE_TOPIC = "recreate-topic"
    ADD_PARTITIONS = "add-partitions"
    FORGET_POSITION = "forget-position"
    POISON = "poison"  # records that cannot be decoded

    @property
    def at_a_step(self) -> bool:
        return self not in _BETWEEN_RUNS


_BETWEEN_RUNS = {
    Deed.DELETE_RECORDS,
    Deed.RECREATE_TOPIC,
    Deed.ADD_PARTITIONS,
    Deed.FORGET_POSITION,
    Deed.POISON,
}


class Inject(_Part):
    """One deed at one moment."""

    do: Deed
    step: Step | None = None  # of a batch of one partition
    batch: Annotated[int | None, Field(ge=1)] = None  # when the step is reached for this time; absent: drawn
    request: str | None = None  # statement:COMMIT, message:CopyData, api:END_TXN: the next one of them
    answer: bool = False  # its answer, while the request itself goes through
    after_bytes: Annotated[int | None, Field(ge=0)] = None  # of a COPY
    skip: Annotated[int, Field(ge=0)] = 0  # so many of these requests go through first

    @model_validator(mode="after")
    def _has_its_moment(self) -> Inject:
        if self.do.at_a_step != (self.step is not None):
            raise ValueError(f"{self.do} {'needs' if self.do.at_a_step else 'has no'} step")
        if (self.do in (Deed.CUT, Deed.LATE)) != (self.request is not None):
            raise ValueError("request goes with cut and late, which need it")
        return self


class Recipe(StrEnum):
    """What people use instead."""

    PLAIN = "plain"  # a loop over confluent-kafka's consumer
    NATIVE = "native"  # Spark's own sink, or foreachBatch with JDBC, with Spark's checkpoint


class Control(_Part):
    """The weaker setting: another guarantee, or what people use instead; at the same moment unless it says another."""

    guarantee: Guarantee | None = None
    recipe: Recipe | None = None
    # of the plain loop: by time, after the batch, before it, after it without waiting, after many
    commit: Literal["auto", "after", "before", "async", "seldom"] = "after"
    start: Literal["earliest", "latest"] = "earliest"  # of the plain loop, where its group has no position
    poll_ms: Annotated[int, Field(ge=3_000)] = 300_000  # of the plain loop: max.poll.interval.ms
    fail_on_data_loss: bool = True
    takes_the_end: bool = False  # of the rows, for the end of the input
    inject: Inject | None = None

    @model_validator(mode="after")
    def _is_one_of_them(self) -> Control:
        if (self.guarantee is None) == (self.recipe is None):
            raise ValueError("a control is another guarantee or a recipe")
        return self

    @property
    def setting(self) -> str:
        if self.recipe is Recipe.PLAIN:
            told = {
                "auto": "auto-commit",
                "after": "commit after the batch",
                "before": "commit before the batch",
                "async": "asynchronous commit after the batch",
                "seldom": "commit every thousand records",
            }
            more = ", auto.offset.reset=latest" if self.start == "latest" else ""
            return f"a plain consumer loop, {told[self.commit]}{more}"
        if self.recipe is Recipe.NATIVE:
            return "what people use on Spark, with its checkpoint"
        if self.takes_the_end:
            return f"{self.guarantee}, with a writer that takes the end of the rows for the end of the input"
        return f"{self.guarantee}{'' if self.fail_on_data_loss else ', failOnDataLoss: false'}"


class Scenario(_Part):
    """One cell: everything that has to be known to run it again."""

    name: str
    row: str
    fault: int
    tells: str
    engine: Engine
    sink: str
    guarantee: Guarantee
    seconds: int  # about
    quick: bool = False  # one of the few that stand for their family in the gate
    story: str | None = None
    inject: Inject | None = None
    control: Control | None = None
    must_stop: str = ""
    dead_letters: bool = False
    instead: Control | None = None  # runs in place of what is declared, to see that the judge finds it out


class Row(_Part):
    """A few lines of the catalogue."""

    name: Name
    fault: Annotated[int, Field(ge=1, le=39)]
    tells: str
    engine: Annotated[tuple[Engine, ...], BeforeValidator(_listed)]
    sink: Annotated[tuple[str, ...], BeforeValidator(_listed)] = ("log",)
    guarantee: Annotated[tuple[Guarantee, ...], BeforeValidator(_listed)]
    story: str | None = None
    inject: Inject | None = None
    control: Control | None = None
    must_stop: str = ""  # the error with which the guarded run stops, instead of losing or doubling
    dead_letters: bool = False
    quick: str = ""  # the one of its scenarios that runs in the gate
    seconds: Annotated[int | None, Field(ge=1)] = None

    @model_validator(mode="after")
    def _is_a_story_or_a_fault(self) -> Row:
        if (self.story is None) == (self.inject is None) or (self.inject is None) != (self.control is None):
            raise ValueError("a row has a story, or inject and control")
        return self

    def scenarios(self) -> Iterator[Scenario]:
        shared = {"row", "fault", "tells", "story", "inject", "control", "must_stop", "dead_letters"}
        for engine, sink, guarantee in product(self.engine, self.sink, self.guarantee):
            name = self.name if self.story else f"{self.name}-{sink}-{engine}-{SHORT[guarantee]}"
            yield Scenario(
                name=name,
                row=self.name,
                engine=engine,
                sink=sink,
                guarantee=guarantee,
                seconds=self.seconds or _USUAL[engine],
                quick=self.quick == name,
                **{part: getattr(self, part) for part in shared - {"row"}},
            )


_USUAL = {Engine.PRODUCER: 5, Engine.PYTHON: 12, Engine.SPARK: 60}


class Undone(_Part):
    """A fault, or a part of one, that the lab does not play, with the reason."""

    fault: Annotated[int, Field(ge=1, le=39)]
    part: str = ""  # absent: nothing of it is played
    why: str


class Beside(_Part):
    """What is compared with ours under one fault."""

    engine: Engine
    sink: tuple[str, ...]
    tells: str
    ours: Inject
    others: tuple[Control, ...]


class Catalogue(_Part):
    """One file, or all of them together."""

    faults: dict[int, str] = {}
    rows: tuple[Row, ...] = ()
    undone: tuple[Undone, ...] = ()
    compared: tuple[Beside, ...] = ()
