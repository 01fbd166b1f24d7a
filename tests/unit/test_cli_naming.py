"""A command's subject, as an argument or as the option that Kafka's own tools have."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from fencepost.cli.naming import named
from fencepost.errors import Usage
from support.commands import here

SAID: list[tuple[str, bool]] = []
app = typer.Typer()


@app.command("describe")
@named("topic")
def describe(topic: str, deep: bool = False) -> None:
    SAID.append((topic, deep))


@pytest.mark.parametrize(
    "words", [["orders", "--deep"], ["--topic", "orders", "--deep"], ["--deep", "orders", "--topic", "orders"]]
)
def test_either_names_it(words: list[str]) -> None:
    SAID.clear()
    assert CliRunner().invoke(app, words).exit_code == 0
    assert SAID == [("orders", True)]


@pytest.mark.parametrize("words", [[], ["orders", "--topic", "refunds"], ["", "--topic", "orders"]])
def test_neither_or_two_different_ones_are_refused(words: list[str]) -> None:
    SAID.clear()
    assert isinstance(CliRunner().invoke(app, words).exception, Usage)
    assert SAID == []


@pytest.mark.parametrize(
    "command", [("topic", "create"), ("topic", "describe"), ("topic", "delete"), ("group", "describe")]
)
def test_every_such_command_has_both(command: tuple[str, str]) -> None:
    kind = command[0]
    assert here(*command).complaint == f"fencepost: which {kind}?: give its name, or --{kind}"
    assert here(*command, "a", f"--{kind}", "b").complaint == f"fencepost: a and --{kind} b: give one of the two"
