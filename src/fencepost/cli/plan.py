"""`fencepost plan` and `fencepost spec`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, say
from fencepost.cli.pipelines import SpecOption, pipeline_spec
from fencepost.machine.counting import count

if TYPE_CHECKING:
    from fencepost.admin.plan import Plan


def plan(
    spec: SpecOption = None,
    offline: Annotated[bool, typer.Option("--offline", help="Look at the file and the transform only.")] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Say what a run would do, without moving anything.

    The guarantee per hop and why it holds, the settings that it sets, how rows get to the sink, where it would resume
    and how many records wait. Ends with 2 where a run would be refused.
    """
    from fencepost.admin.plan import plan_pipeline

    found = plan_pipeline(pipeline_spec(spec, offline), offline)
    if output is OutputFormat.JSON:
        emit_json(asdict(found))
    else:
        _say(found)


def spec(
    schema: Annotated[bool, typer.Option("--schema", help="The JSON Schema of fencepost.yml, for editors.")] = False,
    file: SpecOption = None,
) -> None:
    """Check the pipeline file, or print its JSON Schema."""
    from fencepost.spec.schema import json_schema

    if schema:
        emit_json(json_schema())
    else:
        say(f"{pipeline_spec(file, offline=True).name}: the pipeline file is right")


def _say(plan: Plan) -> None:
    say(f"{plan.pipeline}: {plan.guarantee}, engine {plan.engine}")
    for hop in plan.hops:
        say(f"  {hop.hop}: {hop.why}")
    say(f"path: {plan.path}; {plan.path_why}")
    state = {True: "exists and fits", False: "will be made", None: "not looked at"}[plan.target_exists]
    say(f"target {plan.target}: {state}")
    for name, kind in plan.columns.items():
        say(f"  {name} {kind}")
    if plan.resume is not None:
        places = ", ".join(f"{partition} at {position}" for partition, position in plan.resume.items())
        say(f"would resume: {places}; {count(plan.waiting or 0, 'offset')} to go")
    say("settings that are not up to you:")
    for name, value in plan.settings.items():
        say(f"  {name} = {value}")
    for warning in plan.warnings:
        say(f"warning: {warning}")
