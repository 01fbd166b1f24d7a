"""A pipeline's run as a process, with a gate: `python -m fencepost.lab.pipelines.carrier WORK`, with the work as JSON.

Ends with the error's exit code, as `fencepost run --once` does.
"""

from __future__ import annotations

import sys

from fencepost.errors import FencepostError
from fencepost.lab.pipelines.news import NewsFile
from fencepost.lab.pipelines.work import Work
from fencepost.run.pipeline import Pipeline
from fencepost.spec import load


def main() -> int:
    work = Work.model_validate_json(sys.argv[1])
    spec, news = load(work.spec), NewsFile(work.news)
    try:
        done = Pipeline(spec, listen=news.hear, see=work.observer(spec.source.origins[0])).run(once=work.once)
    except FencepostError as error:
        news.tell("failed", error=type(error).__name__, message=str(error))
        return error.exit_code
    news.tell("ended", rows=done.rows, dead=done.dead, restarts=done.restarts)
    return 0


if __name__ == "__main__":
    sys.exit(main())
