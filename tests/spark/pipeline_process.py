"""A run in a process of its own: `pipeline_process.py SPEC [--once] [--crash STEP PARTITION DEED WITNESS] [--time N]`.

Its news are JSON lines; it ends with the error's exit code, as `fencepost run` does.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from fencepost.cli.output import emit_json
from fencepost.cli.run_output import RunOutput
from fencepost.delivery import Observer, nobody
from fencepost.errors import FencepostError
from fencepost.lab.crash import CrashAction, CrashPoint
from fencepost.model import Step, TopicPartition
from fencepost.run.pipeline import Pipeline
from fencepost.spec import load


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("spec", type=Path)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--crash", nargs=4, metavar=("STEP", "PARTITION", "DEED", "WITNESS"))
    parser.add_argument("--time", type=int, default=1, help="that the step is reached")
    words = parser.parse_args()
    spec = load(words.spec)
    see: Observer = nobody
    if words.crash:
        step, partition, deed, witness = words.crash
        place = TopicPartition(spec.source.origins[-1], int(partition))
        see = CrashPoint(Step(step), place, CrashAction(deed), Path(witness), words.time)
    try:
        Pipeline(spec, listen=RunOutput(as_json=True), see=see).run(once=words.once)
    except FencepostError as error:
        emit_json({"event": "failed", **error.facts()})
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
