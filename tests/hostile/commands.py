"""A command in this very process, and what it may not do whatever it is given."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from support import commands

FORESEEN = {0, 1, 2, 3, 4, 5}


class Ended(commands.Ended):
    """A command that ended."""

    def lines(self) -> list[dict[str, Any]]:
        """Its output as JSON lines, by a parser that takes nothing else."""
        return [json.loads(line, parse_constant=_refuse) for line in self.out.splitlines()]

    def require_clean(self, *codes: int) -> Ended:
        """It ended as somebody foresaw, in words that steer no terminal; what it complains of begins with its name."""
        assert self.code in (codes or FORESEEN), self
        assert "unexpected error" not in self.err, self
        assert "Traceback" not in self.err, self
        for line in (self.out + self.err).splitlines():
            assert line.isprintable(), self
        if self.code in (2, 3, 4):
            assert "fencepost: " in self.err, self
        return self


Command = Callable[..., Ended]


@pytest.fixture
def fencepost() -> Command:
    def run(*words: object) -> Ended:
        ended = commands.here(*words)
        return Ended(ended.code, ended.out, ended.err)

    return run


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")
