"""`fencepost consume` and `fencepost.consume`."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict

import fencepost
from consuming.groups import Group
from fencepost.kafka.client import wait_until
from fencepost.kafka.groups import describe_group
from fencepost.kafka.topic_reader import read_committed
from fencepost.kafka.topics import TopicRequest, create_topic
from support.commands import apart, argv, here


def words(group: Group, *more: str) -> list[str]:
    where = ["--bootstrap-server", group.stack.bootstrap_servers, "--topic", group.name, "--group", group.name]
    return ["consume", *where, *more]


def test_events_are_printed_as_json_lines(group: Group) -> None:
    group.produce(range(6))
    done = apart(*words(group, "--once"))
    shown = [json.loads(line) for line in done.out.splitlines()]
    assert sorted(int(one["value"]) for one in shown) == list(range(6))
    assert {(one["topic"], one["partition"], one["offset"]) for one in shown} == {
        (group.name, number % 2, number // 2) for number in range(6)
    }
    again = here(*words(group, "--once"))
    assert (again.code, again.out) == (0, "")


def test_a_handler_is_loaded_from_a_file(group: Group, tmp_path: Path) -> None:
    group.produce(range(4))
    out = tmp_path / "out"
    code = f"def handle(events):\n    open({str(out)!r}, 'a').write(''.join(e.value.decode() for e in events))\n"
    (tmp_path / "mine.py").write_text(code)
    assert here(*words(group, "--once", "--handler", str(tmp_path / "mine.py") + ":handle")).code == 0
    assert sorted(out.read_text()) == list("0123")


def test_ctrl_c_finishes_the_batch_and_ends_with_130(group: Group) -> None:
    group.produce(range(4))
    with subprocess.Popen(argv(*words(group)), stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        for _ in range(4):
            running.stdout.readline()
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 130

    def committed() -> list[int | None]:
        return [one.position for one in describe_group(group.cluster, group.name).partitions]

    assert wait_until(lambda: committed() == [2, 2], 30)


def test_what_cannot_be_held_is_refused_in_one_line(group: Group) -> None:
    for more in (["--guarantee", "exactly-once"], ["--guarantee", "at-most-once", "--commit", "auto"], ["--per", "x"]):
        refused = here(*words(group, *more))
        assert (refused.code, refused.err.count("\n"), refused.out) == (2, 1, ""), refused.err


def test_the_library_is_one_call(group: Group) -> None:
    group.produce(range(10))
    seen: list[bytes | None] = []
    done = fencepost.consume(
        lambda events: seen.extend(event.value for event in events),
        topic=group.name,
        group=group.name,
        guarantee="at-least-once",
        kafka=group.kafka,
        commit="async",
        per="record",
        once=True,
    )
    assert (len(seen), done.rows) == (10, 10)


def test_the_plan_says_what_is_covered_and_what_is_not(group: Group) -> None:
    def plan(*more: str) -> str:
        done = here(*words(group, "--plan", *more))
        assert done.code == 0, done.err
        return done.out

    exact = plan("--guarantee", "exactly-once", "--handler", "shop:sell")
    assert "through `tx` and the position are committed in one transaction" in exact
    assert "elsewhere (a call, a file, another database) is not covered" in exact
    assert "repeats one event" in plan("--per", "record")
    assert "loses one batch of each partition" in plan("--guarantee", "at-most-once")
    assert "read_committed" in plan("--guarantee", "exactly-once", "--to-topic", "out")


def test_into_a_table_and_into_a_topic_without_a_file(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    group.produce(range(20))
    create_topic(group.cluster, TopicRequest(f"{group.name}-out", 1))
    table = group.name.replace("-", "_")
    names = {"host": "PGHOST", "port": "PGPORT", "user": "PGUSER", "dbname": "PGDATABASE", "passfile": "PGPASSFILE"}
    for name, value in conninfo_to_dict(group.stack.dsn).items():
        if name in names:
            monkeypatch.setenv(names[name], str(value))
    exactly = ["--guarantee", "exactly-once", "--once"]
    for more in (["--table", table], ["--to-topic", f"{group.name}-out", "--group", f"{group.name}-relay"]):
        done = here(*words(group, *exactly, *more))
        assert done.code == 0, done.err
    landed = [int(bytes(value)) for (value,) in group.sql(f"SELECT value FROM {table}")]
    relayed = [int(record.value() or b"") for record in read_committed(group.kafka, f"{group.name}-out")]
    assert sorted(landed) == sorted(relayed) == list(range(20))


def test_a_reader_that_goes_away_ends_it_quietly_and_moves_no_position(group: Group) -> None:
    """Also an output that is full: the handler is not to blame, and what nobody read is read again."""
    group.produce(range(20))

    def consume(into: str) -> subprocess.CompletedProcess[str]:
        line = f"{shlex.join(argv(*words(group, '--once')))} {into}; exit ${{PIPESTATUS[0]}}"
        return subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60, check=False)  # noqa: S607

    gone = consume("| true")
    assert (gone.returncode, gone.stderr) == (141, "")
    full = consume("> /dev/full")
    assert (full.returncode, full.stderr.count("\n")) == (3, 1)
    assert full.stderr.startswith("fencepost: standard output cannot be written: No space left on device")
    again = consume("")
    assert sorted(int(json.loads(line)["value"]) for line in again.stdout.splitlines()) == list(range(20))


def test_a_handler_that_does_not_load_is_one_line_and_one_that_ends_the_process_commits_nothing(
    group: Group, tmp_path: Path
) -> None:
    group.produce(range(4))
    file = tmp_path / "mine.py"
    for code, exit_code, said in [
        ("def handle(events:\n", 2, f"{file} line 1: "),
        ("import sys\nsys.exit(0)\n", 2, f"it called sys.exit(0) ({file} line 2)"),
        ("async def handle(events): pass\n", 2, "is async"),
        ("import sys\ndef handle(events):\n    sys.exit(0)\n", 1, f"it called sys.exit(0) ({file} line 3)"),
    ]:
        file.write_text(code)
        done = apart(*words(group, "--once", "--handler", f"{file}:handle"))
        assert (done.code, len(done.err.splitlines())) == (exit_code, 1), done.err
        assert said in done.err
    out = tmp_path / "out"
    file.write_text(
        f"def handle(events):\n    open({str(out)!r}, 'a').write(''.join(e.value.decode() for e in events))\n"
    )
    assert apart(*words(group, "--once", "--handler", f"{file}:handle")).code == 0
    assert sorted(out.read_text()) == list("0123")
