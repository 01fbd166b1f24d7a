"""Rows as anybody may have put them into the sink's table: peek shows them whole, on any terminal, and as JSON."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import psycopg
import pytest

from fencepost.cli.output import shortened
from fencepost.machine.printable import visible
from hostile.commands import Command
from hostile.conftest import Declare
from support.hostile import DIGITS, NAMES, TEXTS

ODD = {
    "text": [text for text in TEXTS.values() if "\x00" not in text],
    "double precision": ["NaN", "Infinity", "-Infinity", "-0", "1e-300"],
    "numeric": ["NaN", "Infinity", DIGITS, f"0.{DIGITS}"],
    "bytea": ["\\x", "\\x00ff1b"],
    "jsonb": ["null", f'{{"n": {DIGITS}}}', '{"a": "\\u001b[31m"}', "[" * 1000 + "]" * 1000],
    "json": ['{"a": 1, "a": 2}', "1e400", '"\\ud83d\\ude00"'],
    "timestamptz": ["infinity", "-infinity", "0001-01-01 00:00:00 BC", "294276-12-31", "2026-01-01"],
    "timestamp": ["infinity", "4713-01-01 BC"],
    "date": ["infinity", "5874897-12-31", "4713-01-01 BC"],
    "time": ["24:00:00"],
    "interval": ["178000000 years", "-1 mon +1 day"],
    "text[]": ["{}", '{"\x1b[31m",NULL}'],
    "uuid": ["00000000-0000-0000-0000-000000000000"],
    "inet": ["::1/128"],
    "int4range": ["empty", "[,)"],
    "point": ["(NaN,Infinity)"],
    "bit varying": ["101"],
    "money": ["-92233720368547758.08"],
    "tsvector": ["'a':1"],
}


def fill(database: psycopg.Connection[Any], table: str) -> int:
    """A table with a column of each type, a row of each odd value; returns how many."""
    kinds = [kind for kind in ODD if ODD[kind]]
    columns = ", ".join(f'"c{number}" {kind}' for number, kind in enumerate(kinds))
    database.execute(f'CREATE TABLE "{table}" (id bigint, {columns})')
    rows = 0
    for number, kind in enumerate(kinds):
        for value in ODD[kind]:
            database.execute(f'INSERT INTO "{table}" (id, "c{number}") VALUES (%s, %s::text::{kind})', (rows, value))
            rows += 1
    return rows


@pytest.mark.parametrize("form", ["text", "json"])
def test_peek_shows_values_of_every_type(
    database: psycopg.Connection[Any], declare: Declare, topic: str, fencepost: Command, form: str
) -> None:
    rows = fill(database, topic)
    done = fencepost("peek", "--spec", declare(topic), "--most", 1000, "--format", form).require_clean(0)
    if form == "json":
        assert sorted(row["id"] for row in done.lines()) == list(range(rows))
        assert [text for text in ODD["text"] if text not in {row["c0"] for row in done.lines()}] == []
    else:
        assert len(done.out.splitlines()) == rows + 1
        for text in ODD["text"]:
            assert visible(shortened(text)) in done.out
        assert DIGITS in done.out


def test_peek_before_the_first_run_says_so(declare: Declare, fencepost: Command) -> None:
    nothing = fencepost("peek", "--spec", declare("not_there_yet")).require_clean(2)
    assert nothing.err == "fencepost: there is no table 'not_there_yet': has the pipeline run?\n"


def test_peek_shows_columns_of_any_name(
    database: psycopg.Connection[Any], declare: Declare, topic: str, fencepost: Command
) -> None:
    names = {name for name in NAMES.values() if name and "\x00" not in name and len(name.encode()) <= 63}
    columns = psycopg.sql.SQL(", ").join(psycopg.sql.SQL("{} int").format(psycopg.sql.Identifier(n)) for n in names)
    table = psycopg.sql.Identifier(topic)
    database.execute(psycopg.sql.SQL("CREATE TABLE {} ({})").format(table, columns))
    database.execute(psycopg.sql.SQL("INSERT INTO {} DEFAULT VALUES").format(table))
    done = fencepost("peek", "--spec", declare(topic)).require_clean(0)
    for name in names:
        assert visible(name).strip() in done.out
    (row,) = fencepost("peek", "--spec", declare(topic), "--format", "json").require_clean(0).lines()
    assert row == dict.fromkeys(names)


@pytest.mark.parametrize("columns", [20, pytest.param(80, marks=pytest.mark.proof)])
def test_on_a_real_terminal_nothing_is_cut_unsaid_and_nothing_steers(
    database: psycopg.Connection[Any], declare: Declare, topic: str, columns: int
) -> None:
    fill(database, topic)
    shown = on_a_terminal(["peek", "--spec", str(declare(topic)), "--most", "1000"], columns)
    plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").replace("\r\n", "\n")
    assert plain.replace("\n", "").isprintable(), [line for line in plain.splitlines() if not line.isprintable()][:3]
    assert DIGITS in plain
    for text in ODD["text"]:
        assert visible(shortened(text)).rstrip() in plain


def on_a_terminal(words: list[str], columns: int) -> str:
    """What a terminal of so many columns is told."""
    leader, follower = pty.openpty()
    argv = [sys.executable, "-m", "fencepost", *words]
    environment = {**os.environ, "COLUMNS": str(columns), "LINES": "50", "TERM": "xterm"}
    with subprocess.Popen(argv, stdin=follower, stdout=follower, stderr=follower, env=environment) as running:
        os.close(follower)
        told = b""
        try:
            while block := os.read(leader, 65_536):
                told += block
        except OSError:  # how Linux says that the other side is closed
            pass
        assert running.wait(60) == 0, told[-500:]
    os.close(leader)
    return told.decode()
