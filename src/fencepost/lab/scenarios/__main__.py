"""`python -m fencepost.lab.scenarios [NAME ...]`: tell the stories on a field of their own."""

from __future__ import annotations

import sys

from fencepost.errors import FencepostError
from fencepost.lab.scenarios.field import opened
from fencepost.lab.scenarios.stories import STORIES


def main(names: list[str]) -> int:
    unknown = set(names) - STORIES.keys()
    if unknown:
        sys.stderr.write(f"there is no story {min(unknown)}: one of {', '.join(STORIES)}\n")
        return 2
    try:
        with opened() as field:
            for story in (STORIES[name] for name in names or STORIES):
                weak, strong = story.tell(field)
                sys.stdout.write(f"{story.name}: {story.tells}\n    {weak}\n    {strong}\n")
                sys.stdout.flush()
    except FencepostError as error:
        sys.stderr.write(f"fencepost: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
