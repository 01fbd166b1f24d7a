"""`fencepost audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, say
from fencepost.cli.pipelines import SpecOption, pipeline_spec


def audit(
    spec: SpecOption = None,
    most: Annotated[int, typer.Option("--most", min=0, help="How many findings to show; the totals are exact.")] = 100,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Compare the topic with the table, record by record, and say whether the declared guarantee holds.

    Ends with 0 when it holds, with 1 when it is broken, with 5 when that cannot be decided.
    """
    from fencepost.audit.compare import Verdict
    from fencepost.audit.pipeline import audit_pipeline

    pipeline = pipeline_spec(spec)
    found = audit_pipeline(pipeline)
    result = found.comparison
    verdict = result.verdict(pipeline.guarantee)
    findings = [
        {"code": finding.code.value, "id": str(finding.id), "times": finding.times, "expected": finding.expected}
        for finding in result.findings[:most]
    ]
    if output is OutputFormat.JSON:
        emit_json(
            {
                "verdict": verdict.value,
                "guarantee": pipeline.guarantee.value,
                "read": found.read,
                "expected": result.expected,
                "landed": result.landed,
                "filtered": found.filtered,
                "dead": found.dead,
                "lost": result.lost,
                "duplicated": result.duplicated,
                "phantom": result.phantom,
                "findings": findings,
            }
        )
    else:
        say(f"read {found.read:,} = landed {found.landed:,} + filtered {found.filtered:,} + dead {found.dead:,}")
        say(f"rows {result.landed:,}: lost {result.lost:,}, doubled {result.duplicated:,}, phantom {result.phantom:,}")
        for finding in findings:
            say(f"  {finding['code']}  {finding['id']}: {finding['times']} instead of {finding['expected']}")
        say(f"{pipeline.guarantee}: {verdict}")
    if verdict is not Verdict.HOLDS:
        raise typer.Exit(1 if verdict is Verdict.BROKEN else 5)
