"""What reaches a terminal or a script: nothing is cut, nothing steers, JSON is JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from fencepost.cli import output
from fencepost.cli.output import shortened
from fencepost.machine.printable import visible
from support.hostile import SURROGATE, TEXTS

STEERS = {chr(code) for code in [*range(32), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)]} | set(
    "\u200b\u200c\u200d\u200e\u200f\u2028\u2029\u2060\ufeff\ud800"
)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], io.StringIO]:
    """A terminal of so many columns, in place of stdout and stderr."""

    def of(width: int) -> io.StringIO:
        written = io.StringIO()
        for name in ("console", "progress_console"):
            shown = Console(file=written, force_terminal=True, color_system=None, width=width, highlight=False)
            monkeypatch.setattr(output, name, shown)
        return written

    return of


@given(st.text(st.characters(), max_size=30))
def test_nothing_that_steers_a_terminal_is_left_and_the_rest_is_as_it_was(text: str) -> None:
    shown = visible(text)
    assert not STEERS & set(shown)
    assert visible(shown) == shown
    assert visible("".join(one for one in text if one not in STEERS and one.isprintable())).isprintable()


def test_escapes_are_readable() -> None:
    assert visible("\x1b[31m\x9b\u202eé価\U000e0041\n" + SURROGATE) == (
        "\\x1b[31m\\x9b\\u202eé価\\U000e0041\\na\\ud800b"
    )


@pytest.mark.parametrize("text", [*TEXTS.values(), SURROGATE, ":100:", "a:smile:b"])
@pytest.mark.parametrize("width", [10, 80, 200])
def test_a_line_and_a_table_show_every_text_whole_and_escaped(
    text: str, width: int, screen: Callable[[int], io.StringIO]
) -> None:
    shown = screen(width)
    output.say(text)
    output.note(text)
    output.emit_table(["id", text], [[1, text], [2, None]])
    written = shown.getvalue()
    assert not (STEERS - {"\n"}) & set(written)
    assert written.count(visible(text).rstrip()) >= 4


@pytest.mark.parametrize("width", [1, 10, 20, 40, 79, 80, 200])
def test_numbers_are_never_cut_whatever_the_width(width: int, screen: Callable[[int], io.StringIO]) -> None:
    shown = screen(width)
    numbers = [10**18 + number for number in range(8)]
    columns = [f"column {number}" for number in range(8)]
    output.emit_table(columns, [numbers, [number + 8 for number in numbers]])
    words = shown.getvalue().split()
    for number in range(10**18, 10**18 + 16):
        assert str(number) in words
    assert max(map(len, shown.getvalue().splitlines())) <= max(width, len(f"column 7  {10**18}"))


def test_a_table_that_fits_is_a_table(screen: Callable[[int], io.StringIO]) -> None:
    shown = screen(80)
    output.emit_table(["topic", "lag"], [["orders", 12], ["価格", None]])
    assert shown.getvalue() == "topic   lag\norders  12\n価格    -\n"


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (float("nan"), "NaN"),
        (float("inf"), "Infinity"),
        ({"a": [-float("inf")]}, {"a": ["-Infinity"]}),
        (Decimal("NaN"), "NaN"),
        (SURROGATE, "a\\ud800b"),
        ({SURROGATE: 1, 2: 3, float("nan"): 4}, {"a\\ud800b": 1, "2": 3, "nan": 4}),
        (b"\x00\xff", "\\x00ff"),
        (memoryview(b"\x01"), "\\x01"),
        ("\x7f\x1b\u202e", "\x7f\x1b\u202e"),
        ((1, True, None), [1, True, None]),
    ],
)
def test_json_is_valid_ascii_and_exact(value: Any, read: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON")

    output.emit_json(value)
    written = capsys.readouterr().out
    assert json.loads(written, parse_constant=refuse) == read
    assert written.endswith("\n")
    assert written[:-1].isascii()
    assert not STEERS & set(written[:-1])


def test_a_long_value_says_that_it_is_cut_and_how_long_it_is() -> None:
    assert shortened("x" * 900_000) == "x" * 200 + "… (900,000 characters)"
    assert shortened(b"\x01" * 201) == "\\x" + "01" * 200 + "… (201 bytes)"
    for whole in ("x" * 200, b"x" * 200, 10**300, None, ["x" * 10]):
        assert shortened(whole) is whole
