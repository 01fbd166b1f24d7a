"""Who may speak to Spark: by default nobody who does not know the session's secret.

Without a secret any client of a driver's port reads what it sends to its tasks, and can send tasks of its own.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping

from fencepost.errors import Usage

ON, SECRET = "spark.authenticate", "spark.authenticate.secret"
_MAKES_ITS_OWN = re.compile(r"local|local\[[^\]]*\]|yarn|k8s://.*")
_HERE = re.compile(r"local(\[.*\]|-cluster\[.*\])?")


def authentication(user: Mapping[str, str], master: str) -> dict[str, str]:
    """What to add to the user's settings, so that Spark asks for a secret. What the user says of it is his word.

    Raises Usage where there must be a secret that the cluster knows too, and none is given.
    """
    if user.get(ON, "true").strip().lower() != "true":
        return {}
    if _MAKES_ITS_OWN.fullmatch(master) or SECRET in user:
        return {ON: "true"}
    if runs_here(master):  # a cluster inside this very process
        return {ON: "true", SECRET: secrets.token_hex(32)}
    raise Usage(
        f"spark.master {master} needs the cluster's secret: without it, any client that reaches the driver can read "
        "your passwords",
        f"set {SECRET}: ${{SPARK_SECRET}} under spark:, the same as the master's and the workers' (docs/cluster.md), "
        f"or {ON}: false on a private network",
    )


def runs_here(master: str) -> bool:
    """Do its tasks run on this machine, as this user?"""
    return _HERE.fullmatch(master) is not None
