"""A remedy as a person follows it: the command in the text, typed as it stands, in the pipeline's folder."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from fencepost.errors import FencepostError

_COMMAND = re.compile(r"fencepost (?:positions|topic|init|produce|run|group)\b[^;`()]*?(?=$|[;`()]| and |, | \Z)")


def commands(error: FencepostError) -> list[str]:
    """Every command of ours that the remedy has."""
    return [found.rstrip(" .") for found in _COMMAND.findall(error.remedy)]


def follow(error: FencepostError, spec: Path) -> list[str]:
    """Type each command of the remedy where the pipeline's file is, and say yes. Returns what they printed."""
    typed = commands(error)
    assert typed, f"no command in: {error.remedy}"
    shutil.copy(spec, spec.parent / "fencepost.yml")
    return [_typed(command, spec.parent) for command in typed]


def _typed(command: str, folder: Path) -> str:
    argv = [sys.executable, "-m", *shlex.split(command)]
    done = subprocess.run(
        argv, input="y\n", capture_output=True, text=True, timeout=120, cwd=folder, env=os.environ, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
