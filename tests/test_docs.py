"""The documentation is true: the README's session runs as it stands, and every command is in it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from fencepost.cli.app import app
from fencepost.rules.refusals import table

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
VOLATILE = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d[\d,.:+-]*")


def session() -> list[tuple[str, list[str]]]:
    """The commands of the README's first console block, each with the lines that it shows."""
    block = re.search(r"```console\n(.*?)```", README, re.DOTALL)
    assert block, "the README opens with a session"
    steps: list[tuple[str, list[str]]] = []
    for line in block[1].splitlines():
        if line.startswith("$ "):
            steps.append((line[2:], []))
        else:
            steps[-1][1].append(line)
    return steps


def shape(line: str) -> str:
    """A line without its numbers, ids and the width of its columns: what is the same every time."""
    return " ".join(VOLATILE.sub("N", line).split())


@pytest.mark.timeout(600)
def test_the_readme_session_runs_as_it_stands(tmp_path: Path) -> None:
    where = tmp_path
    environment = {name: value for name, value in os.environ.items() if name != "FENCEPOST_HOME"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    try:
        for command, shown in session():
            if command.startswith("cd "):
                where = where / command.removeprefix("cd ")
                continue
            done = subprocess.run(
                shlex.split(command),
                cwd=where,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"{command}: {done.stderr}"
            said = done.stdout.splitlines()
            if command.startswith(("fencepost produce", "fencepost run", "fencepost audit")):
                assert said == shown, command
            else:
                missing = {shape(line) for line in shown} - {shape(line) for line in said}
                assert not missing, f"{command} does not show {missing}, but {said}"
    finally:
        home = ["--home", str(tmp_path / ".fencepost")]
        subprocess.run([sys.executable, "-m", "fencepost", "down", "--wipe", *home], env=environment, check=True)


def commands() -> list[str]:
    group = get_command(app)
    found = []
    for name, command in group.commands.items():  # type: ignore[attr-defined]
        below = getattr(command, "commands", None)
        found += [f"{name} {child}" for child in below] if below else [name]
    return found


@pytest.mark.parametrize("command", commands())
def test_every_command_is_in_the_readme(command: str) -> None:
    row = command.split(maxsplit=1)[0]
    assert f"`fencepost {row}" in README or f"`{row}`" in README


@pytest.mark.parametrize("command", commands())
def test_every_command_explains_itself(command: str) -> None:
    shown = CliRunner().invoke(app, [*command.split(), "--help"])
    assert shown.exit_code == 0
    assert len(shown.output.splitlines()) > 6


def test_every_link_of_the_docs_leads_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")):
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_table_of_refusals_is_what_the_rules_say() -> None:
    assert table() in (ROOT / "docs" / "refusals.md").read_text(), "python -m fencepost.rules.refusals prints it"


def test_the_example_of_a_sink_is_the_one_that_runs() -> None:
    """All blocks but the last, which tests/sqlite_sink runs as it stands."""
    folder = ROOT / "tests" / "sqlite_sink"
    files = [path.read_text() for path in (folder / "pyproject.toml", *folder.rglob("*.py"))]
    blocks = re.findall(r"```(?:python|toml)\n(.*?)```", (ROOT / "docs" / "sinks.md").read_text(), re.DOTALL)
    assert len(blocks) > 5
    assert not [block for block in blocks[:-1] if not any(block in text for text in files)]
