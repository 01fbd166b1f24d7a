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
    offline: Annotated[
        bool, typer.Option("--offline", help="Check the file and the transform only; do not connect.")
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="Try the transform on Spark, though nothing changed since the last plan.")
    ] = False,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Show what a run would do, without changing anything.

    Shows the guarantee per hop and why it holds, the required settings, the write path, where a run would resume
    and the lag. Exits with 2 if a run would be refused.
    """
    from fencepost.admin.plan import plan_pipeline

    found = plan_pipeline(pipeline_spec(spec, offline), offline, again)
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
        say(f"{pipeline_spec(file, offline=True).name}: the pipeline file is valid")


def _say(plan: Plan) -> None:
    say(f"{plan.pipeline}: {plan.guarantee}, engine {plan.engine}")
    for hop in plan.hops:
        say(f"  {hop.hop}: {hop.why}")
    say(f"path: {plan.path}; {plan.path_why}")
    state = {True: "exists and fits", False: "will be created", None: "not checked"}[plan.target_exists]
    say(f"target {plan.target}: {state}")
    for name, kind in plan.columns.items():
        say(f"  {name} {kind}")
    if plan.resume is not None:
        places = ", ".join(f"{partition} at {position}" for partition, position in plan.resume.items())
        say(f"would resume: {places}; {count(plan.waiting or 0, 'offset')} to go")
    if plan.transform_tried is not None:
        say(f"the transform was tried at {plan.transform_tried}, and nothing changed since; plan --again tries it now")
    say("required settings:")
    for name, value in plan.settings.items():
        say(f"  {name} = {value}")
    for warning in plan.warnings:
        say(f"warning: {warning}")
