"""What a rule matches and does, and a rule in force with its counters: the witness that a fault fired."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, NamedTuple, NewType

from fencepost.errors import Usage
from fencepost.lab.proxy.kafka import Api
from fencepost.lab.proxy.postgres import ANSWERED, Message, Statement

Request = Api | Message | Statement
RuleId = NewType("RuleId", int)


class Direction(StrEnum):
    """Which half of an exchange an action is taken on."""

    REQUEST = "request"
    RESPONSE = "response"


class Action(StrEnum):
    """What becomes of a request, or of the response to it. What follows on the connection waits behind it."""

    FORWARD = "forward"  # nothing: the rule only counts
    DROP = "drop"  # swallowed; the connection stays
    HOLD = "hold"  # kept until release
    HOLD_DETACH = "hold-detach"  # the client is cut off at once; request and upstream connection live until release
    RESET = "reset"  # swallowed, the client's connection reset: before the server saw it, or as a lost answer
    DELAY = "delay"  # forwarded after `ms`


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """When to do what. The first rule of a direction that matches a request takes it."""

    action: Action
    direction: Direction = Direction.REQUEST
    request: Request | None = None  # None: any
    client: str | None = None  # Kafka's client.id, PostgreSQL's application_name; None: any
    listener: str | None = None  # None: any
    skip: int = 0  # this many matches pass first
    count: int | None = None  # fires this often; None: always
    ms: int = 0  # only with DELAY
    after_bytes: int | None = None  # only with CopyData: the message in which byte n of its COPY lies

    def __post_init__(self) -> None:
        if self.skip < 0 or (self.count is not None and self.count < 1):
            raise Usage(f"a rule skips 0 or more and fires 1 or more times, not {self.skip} and {self.count}")
        if (self.action is Action.DELAY) != (self.ms > 0):
            raise Usage(f"ms goes with delay, and delay needs it: action {self.action}, ms {self.ms}")
        if self.after_bytes is not None and (self.request is not Message.COPY_DATA or self.after_bytes < 0):
            raise Usage(f"after_bytes is 0 or more and needs request=Message.COPY_DATA: {self}")
        if self.direction is Direction.RESPONSE and self._is_never_answered():
            raise Usage(f"{self.request} is never answered", "use direction=Direction.REQUEST")

    def _is_never_answered(self) -> bool:
        return isinstance(self.request, Message) and self.request not in ANSWERED

    def __str__(self) -> str:
        what = "any request" if self.request is None else name_of(self.request)
        whose = f" of client {self.client}" if self.client else ""
        where = f" at {self.listener}" if self.listener else ""
        return f"{self.action} {what} ({self.direction}){whose}{where}"

    def to_json(self) -> dict[str, Any]:
        """The fields that differ from their defaults, as JSON values."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name) != f.default}
        if self.request is not None:
            given["request"] = f"{type(self.request).__name__.lower()}:{name_of(self.request)}"
        return given

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Rule:
        known = {f.name for f in fields(cls)}
        if unknown := set(given) - known:
            raise Usage(f"a rule has no {sorted(unknown)}", f"it has {sorted(known)}")
        try:
            values = given | {"action": Action(given["action"])}
            if "direction" in given:
                values["direction"] = Direction(given["direction"])
            if given.get("request") is not None:
                values["request"] = _request_from(given["request"])
            return cls(**values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise Usage(f"not a rule: {given} ({error})") from error


def name_of(request: Request) -> str:
    """PRODUCE, Query, COMMIT: how a request is counted and shown."""
    match request:
        case Api():
            return request.name
        case Message():
            return request.value
        case Statement():
            return request.keyword


def _request_from(text: str) -> Request:
    """The other way of `to_json`: api:FETCH and statement:FETCH are not the same."""
    kind, _, name = text.partition(":")
    match kind:
        case "api":
            return Api[name]
        case "message":
            return Message(name)
        case "statement":
            return Statement(name)
    raise ValueError(f"a request is api:NAME, message:NAME or statement:KEYWORD, not {text!r}")


class Call(NamedTuple):
    """A request as rules see it."""

    listener: str
    client: str
    requests: tuple[Request, ...]  # an Execute is Message.EXECUTE and the statement that it runs
    copied: range = range(0)  # of CopyData: which bytes of its COPY it carries


class Witness(NamedTuple):
    """What a rule has done so far."""

    hits: int  # it took a request, or the response to one
    done: int  # its effect is complete: swallowed or cut; else delivered, and answered where an answer is due


class ArmedRule:
    """A rule in force. Lives in the event loop's thread."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.witness = Witness(0, 0)
        self._skip = rule.skip
        self._left = rule.count
        self._released = asyncio.Event()
        self._counted = asyncio.Event()

    def takes(self, direction: Direction, call: Call) -> bool:
        """Does it match, and is its turn? If so, one of its firings is spent."""
        if not self._matches(direction, call) or self._left == 0 or self._released.is_set():
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self._left is not None:
            self._left -= 1
        return True

    def _matches(self, direction: Direction, call: Call) -> bool:
        rule = self.rule
        return (
            rule.direction is direction
            and rule.client in (None, call.client)
            and rule.listener in (None, call.listener)
            and (rule.request is None or rule.request in call.requests)
            and (rule.after_bytes is None or rule.after_bytes in call.copied)
        )

    async def pause(self) -> None:
        """Wait as long as the action says."""
        match self.rule.action:
            case Action.HOLD | Action.HOLD_DETACH:
                await self._released.wait()
            case Action.DELAY:
                await asyncio.sleep(self.rule.ms / 1000)

    def release(self) -> None:
        """Let go what is held, and fire no more."""
        self._released.set()

    def hit(self) -> None:
        self._count(hits=1)

    def finish(self) -> None:
        self._count(done=1)

    def _count(self, hits: int = 0, done: int = 0) -> None:
        self.witness = Witness(self.witness.hits + hits, self.witness.done + done)
        self._counted.set()
        self._counted = asyncio.Event()

    async def until(self, reached: Callable[[Witness], bool]) -> None:
        while not reached(self.witness):
            await self._counted.wait()


class RuleSet:
    """The rules of a proxy: those in force in the order of their adding, and every one that ever was."""

    def __init__(self) -> None:
        self.in_force: list[ArmedRule] = []
        self._known: dict[RuleId, ArmedRule] = {}

    def add(self, rule: Rule) -> RuleId:
        number = RuleId(len(self._known) + 1)
        self._known[number] = armed = ArmedRule(rule)
        self.in_force.append(armed)
        return number

    def first(self, direction: Direction, call: Call) -> ArmedRule | None:
        return next((armed for armed in self.in_force if armed.takes(direction, call)), None)

    def find(self, number: RuleId) -> ArmedRule:
        if number not in self._known:
            raise Usage(f"no rule {number} was added to this proxy", "use what add() returned")
        return self._known[number]

    def release(self, number: RuleId) -> None:
        armed = self.find(number)
        armed.release()
        if armed in self.in_force:
            self.in_force.remove(armed)

    def clear(self) -> None:
        for armed in self.in_force:
            armed.release()
        self.in_force.clear()
