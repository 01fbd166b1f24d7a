"""A command in this very process, and what it may not do whatever it is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from fencepost.cli import main

FORESEEN = {0, 1, 2, 3, 4, 5}


@dataclass(frozen=True)
class Ended:
    """A command that ended."""

    code: int
    out: str
    err: str

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
def fencepost(capsys: pytest.CaptureFixture[str]) -> Command:
    def run(*words: object) -> Ended:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(_texts(words))
        said = capsys.readouterr()
        return Ended(int(ended.value.code or 0), said.out, said.err)

    return run


def _texts(words: Sequence[object]) -> list[str]:
    return [str(word) for word in words]


def _refuse(word: str) -> None:
    raise AssertionError(f"{word} is no JSON")
