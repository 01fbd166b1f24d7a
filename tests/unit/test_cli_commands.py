"""The commands' outside: quick help with examples, shell completion, `python -m fencepost`."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

HEAVY = ("confluent_kafka", "pyspark", "pyarrow", "psycopg")


def ended(*argv: str, **env: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60, env={**os.environ, **env})
    return done.stdout


@pytest.mark.parametrize(
    "statement",
    [
        "from fencepost.cli import main; sys.argv[1:] = ['--help']; main()",
        "from fencepost.cli import main; sys.argv[1:] = ['topic', 'describe', '--help']; main()",
        "import fencepost.cli.topic, fencepost.cli.group, fencepost.cli.doctor",
    ],
)
def test_help_loads_no_heavy_library(statement: str) -> None:
    program = f"""
import atexit, sys
atexit.register(lambda: print('LOADED', sorted(set({HEAVY}) & sys.modules.keys())))
{statement}
"""
    assert ended(sys.executable, "-c", program).splitlines()[-1] == "LOADED []"


@pytest.mark.parametrize(
    "command",
    ["topic create", "topic list", "topic describe", "topic delete", "group list", "group describe", "doctor"],
)
def test_every_command_explains_itself_with_an_example(command: str) -> None:
    text = ended(sys.executable, "-m", "fencepost", *command.split(), "--help", COLUMNS="200", NO_COLOR="1")
    assert f"Example: fencepost {command}" in text
    assert "--format" in text
    assert command == "doctor" or "--bootstrap-server" in text


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("fencepost to", "topic"),
        ("fencepost topic desc", "describe"),
        ("fencepost group list --boot", "--bootstrap-server"),
    ],
)
def test_the_shell_completes_commands_and_options(words: str, expected: str) -> None:
    program = "import sys; sys.argv = ['fencepost']; from fencepost.cli import main; main()"
    position = str(len(words.split()) - 1)
    answer = ended(
        sys.executable, "-c", program, _FENCEPOST_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=position
    )
    assert expected in answer.split()


def test_the_completion_script_can_be_shown() -> None:
    program = (
        "import sys; sys.argv = ['fencepost', '--show-completion', 'bash']; from fencepost.cli import main; main()"
    )
    script = ended(sys.executable, "-c", program, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert "_FENCEPOST_COMPLETE=complete_bash" in script
