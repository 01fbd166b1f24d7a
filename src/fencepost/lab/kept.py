"""A scenario's verdict as it was written, read again: only what makes sense is shown."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from fencepost.lab.record import Count, Moment


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


class KeptWitness(_Part):
    """How often the fault was seen to fire, and with how many events on their way."""

    fired: Count
    in_flight: Count
    what: str = ""


class KeptTrial(_Part):
    """The guarded run, or its control."""

    setting: str
    sent: Count
    landed: Count
    lost: Count
    duplicated: Count
    anomalies: dict[str, Count]
    witness: KeptWitness


class KeptVerdict(_Part):
    """As the lab has written it."""

    name: str
    verdict: str
    reason: str
    fault: Annotated[int, Field(ge=1, le=99)]
    tells: str
    guarantee: str
    engine: str
    sink: str
    seconds: Moment
    command: str
    pipeline: str = ""  # somebody's own; empty: the lab's
    guarded: KeptTrial
    control: KeptTrial
