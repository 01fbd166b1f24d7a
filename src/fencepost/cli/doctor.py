"""`fencepost doctor`: is this machine ready, what is missing, and how to get it."""

from __future__ import annotations

from dataclasses import asdict

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, say
from fencepost.cli.stack import HomeOption
from fencepost.errors import Unreachable


def doctor(
    home: HomeOption = None,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Check this machine: Java, memory, disk, ports, jars and versions, each with a remedy.

    Exits with 0 if everything that is needed is there, and with 3 if something is missing.

    Example: fencepost doctor --format json
    """
    from fencepost.local import nearest_home, running
    from fencepost.local.doctor import checks, look, ready

    stack = running(home)
    ours = [node.ports["CLIENT"] for node in stack.brokers.values() if node.alive] if stack else []
    report = checks(look((home or nearest_home()).absolute(), ours))
    if output is OutputFormat.JSON:
        emit_json({"ready": ready(report), "checks": [asdict(check) for check in report]})
    else:
        emit_table(["WHAT", "FOUND", "STATUS", "REMEDY"], [[c.what, c.found, c.status, c.remedy] for c in report])
    if not ready(report):
        missing = ", ".join(check.what for check in report if check.status == "missing")
        raise Unreachable(f"not ready: {missing}", "see the remedies above")
    if output is OutputFormat.TEXT:
        say("ready")
