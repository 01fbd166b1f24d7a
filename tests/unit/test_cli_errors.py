"""How a command ends: one line and a code for every error, also for an unexpected one; output is never lost."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fencepost.cli import main
from fencepost.cli.streams import OutputFailed, ReaderGone, Stdout
from fencepost.errors import Refused
from support.hostile import TEXTS

FULL = Path("/dev/full")


def end_of(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    return int(ended.value.code or 0)


def shell(line: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `fencepost` is ours; its code is the pipe's first one."""
    ours = f'fencepost() {{ "{sys.executable}" -m fencepost "$@"; }}; {line}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(["bash", "-c", ours], capture_output=True, text=True, timeout=60, check=False)  # noqa: S607


KAFKA = "kafka: {bootstrap.servers: kafka.example:9092}\n"
PIPELINE = "name: x\nguarantee: exactly-once\nsource: {topic: t}\nsink: {format: postgres, options: {table: t}}\n"


@pytest.mark.parametrize(
    ("file", "missing", "remedy"),
    [
        (PIPELINE, "does not say where Kafka is", "set kafka: {bootstrap.servers: HOST:PORT}"),
        (KAFKA + PIPELINE, "nothing says where PostgreSQL is", "set sink.options.dsn in the pipeline file, or PGHOST"),
    ],
)
def test_what_a_pipeline_file_lacks_is_named(
    file: str,
    missing: str,
    remedy: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("PGHOST", "PGHOSTADDR", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FENCEPOST_HOME", str(tmp_path / "none"))
    path = tmp_path / "fencepost.yml"
    path.write_text(file)
    assert end_of("status", "--spec", str(path)) == 3
    said = capsys.readouterr().err
    assert missing in said
    assert remedy in said


def test_state_is_built_anew_for_the_file_that_was_typed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Another pipeline may be in the folder."""
    path = tmp_path / "the other's.yml"
    sink = "sink: {format: postgres, options: {table: t, dsn: host=127.0.0.1}}\n"
    more = "checkpoint: state\ntransform: {sql: SELECT key FROM events GROUP BY key, output_mode: update}\n"
    path.write_text(f"{KAFKA}name: x\nguarantee: exactly-once\nsource: {{topic: t}}\n{sink}{more}")
    assert end_of("positions", "set", "--to", "latest", "--yes", "--spec", str(path)) == 2
    assert f"fencepost state rebuild --spec {shlex.quote(str(path))} --to earliest" in capsys.readouterr().err


@pytest.fixture
def unforeseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something deep below the two commands that nobody thought of."""

    def fail(*_: object) -> None:
        raise KeyError("odd\x1b[31m\nthing")

    monkeypatch.setattr("fencepost.local.running", fail)


@pytest.mark.usefixtures("unforeseen")
@pytest.mark.parametrize(("words", "code"), [(["doctor"], 6), (["audit", "--topic", "t", "--sink", "topic:s"], 5)])
def test_an_unexpected_error_is_one_line_with_a_code_of_its_own(
    words: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert end_of(*words) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert "KeyError: 'odd\\x1b[31m\\nthing' (fencepost/cli/" in shown.err
    assert f"`fencepost --debug {words[0]} ...` shows the traceback; please report it" in shown.err


@pytest.mark.usefixtures("unforeseen")
def test_with_debug_its_traceback_comes_first(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert end_of("--debug", "doctor") == 6
    assert capsys.readouterr().err.startswith("Traceback")
    monkeypatch.setenv("FENCEPOST_DEBUG", "1")
    assert end_of("doctor") == 6
    assert capsys.readouterr().err.startswith("Traceback")


def test_an_error_with_several_lines_cannot_pass_for_several_errors(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: object) -> None:
        raise Refused("no\nfencepost: all is well\r\x1b[1A", "fix it")

    monkeypatch.setattr("fencepost.local.running", refuse)
    assert end_of("doctor") == 1
    assert capsys.readouterr().err == "fencepost: no\n  fencepost: all is well\\r\\x1b[1A: fix it\n"


@pytest.mark.parametrize("text", [text for text in TEXTS.values() if "\x00" not in text and text])
def test_whatever_the_words_of_a_command_are_the_answer_is_one_clean_error(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in ([text], ["produce", "--topic", text, "--count", text], ["spec", "--spec", f"/nowhere/{text[:200]}"]):
        assert end_of(*words) == 2
        shown = capsys.readouterr().err
        first, *more = shown.splitlines()
        assert first.startswith("fencepost: ")
        assert all(line.startswith("  ") for line in more)
        assert "".join([first, *more]).isprintable()


def test_a_ctrl_c_is_told_and_ends_with_130(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("fencepost.local.running", interrupt)
    assert end_of("doctor") == 130
    assert capsys.readouterr().err == "fencepost: interrupted\n"


@pytest.mark.skipif(not FULL.exists(), reason="needs /dev/full")
@pytest.mark.parametrize("command", ["--help", "--version", "spec --schema"])
@pytest.mark.parametrize(("where", "why"), [("/dev/full", "No space left on device"), ("&-", "is closed")])
def test_output_that_cannot_be_written_is_an_error(command: str, where: str, why: str) -> None:
    done = shell(f"fencepost {command} >{where}")
    assert done.returncode == 3
    assert why in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["--help", "spec --schema"])
def test_a_reader_that_goes_away_ends_it_without_a_word(command: str) -> None:
    done = shell(f"fencepost {command} | true")
    assert (done.returncode, done.stderr) in [(141, ""), (0, "")]  # all of it may fit before the reader is gone


def test_a_stream_whose_reader_is_gone_says_so_at_once() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        guarded = Stdout(pipe)
        guarded.write("something")
        with pytest.raises(ReaderGone):
            guarded.flush()
        guarded.write("what comes later goes nowhere")
        guarded.flush()
    with pytest.raises(OutputFailed, match="closed"):
        Stdout(None).write("x")


def test_an_error_output_that_is_gone_changes_nothing() -> None:
    for line in ("fencepost spec --spec /nowhere 2>/dev/full", "fencepost spec --spec /nowhere 2>&-"):
        done = shell(line)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.parametrize(
    "words",
    [
        "produce --topic t --rate nan",
        "produce --topic t --rate inf",
        "receipt --wait nan",
        "audit --wait inf",
        "audit --topic t --every 0s --bootstrap-server 127.0.0.1:1",
        "audit --topic t --every 99999999999999999999999h --bootstrap-server 127.0.0.1:1",
        "audit --topic t --every nan --bootstrap-server 127.0.0.1:1",
        "audit --topic t --sink topic:u --every 1s --wait 1 --bootstrap-server 127.0.0.1:1",
        "audit --topic t --sink topic:u --every 1s --report out --bootstrap-server 127.0.0.1:1",
        "audit --topic t --from 0:1,0:2 --bootstrap-server 127.0.0.1:1",
        f"audit --topic t --from 0:{2**63} --bootstrap-server 127.0.0.1:1",
        "consume --topic t --group g --per nan --bootstrap-server 127.0.0.1:1",
        "consume --topic t --group g --per -1 --bootstrap-server 127.0.0.1:1",
        "consume --topic t --group g --per inf --bootstrap-server 127.0.0.1:1",
    ],
)
def test_numbers_and_times_that_never_come_are_refused(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert end_of(*words.split()) == 2
    assert capsys.readouterr().err.count("\n") == 1
