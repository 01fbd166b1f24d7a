"""A case from its first record to its last report, beside the oracle."""

from __future__ import annotations

from model import comparing
from model.case import Case
from model.driving import Field
from model.oracle import World


class Disagreement(AssertionError):
    """The real world is not the oracle's."""


def play(field: Field, case: Case) -> None:
    """Raises Disagreement with the pipeline file, the history, and everything that differs."""
    with field.play(case) as real:
        world = World(case, real.starts)
        problems: list[str] = []
        for turn in case.turns:
            world.come(real.produce(turn.records))
            if turn.back:
                for slot, position in real.set_back(turn.back).items():
                    world.set_back(slot, position)
            before = (world.counted[0], world.counted[1])
            seen = real.run(turn)
            problems += world.ran(seen)
            problems += comparing.behind_a_run(world, real)
            problems += comparing.summary(world, real, before)
            if problems:
                break
        else:
            problems += comparing.at_the_end(world, real)
        if problems:
            story = "\n".join([real.path.read_text(), *case.story()])
            raise Disagreement("\n".join([*problems, "", story]))
