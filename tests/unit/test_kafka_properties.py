"""Java's properties grammar, as Kafka's tools read it."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.errors import Usage
from fencepost.kafka.config.properties import parse_properties, read_properties

EXAMPLES = {
    "equals": ("a=b", {"a": "b"}),
    "colon": ("a:b", {"a": "b"}),
    "blank": ("a b c", {"a": "b c"}),
    "blanks around the separator": ("  a \t=  b ", {"a": "b "}),
    "a separator in the value": ("a==b:c", {"a": "=b:c"}),
    "no value": ("a", {"a": ""}),
    "an escaped separator in the key": (r"a\=b\:c\ d=e", {"a=b:c d": "e"}),
    "comments": ("# x=1\n  ! y=2\na=b#c", {"a": "b#c"}),
    "blank lines": ("\n \t\na=b\n\n", {"a": "b"}),
    "a line that goes on": ("a=b,\\\n    c", {"a": "b,c"}),
    "a line that does not go on": ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
    "a comment sign on a continued line": ("a=b\\\n# c", {"a": "b# c"}),
    "the end in the middle of a line that goes on": ("a=b\\", {"a": "b"}),
    "escapes": (r"a=\t\n\r\f\\\q\u00e9", {"a": "\t\n\r\f\\qé"}),
    "line ends of other systems": ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
    "the last one wins": ("a=1\na=2", {"a": "2"}),
    "a space that is none in Java": ("a\u00a0b=c", {"a\u00a0b": "c"}),
}


@pytest.mark.parametrize("example", EXAMPLES)
def test_it_is_read_as_java_reads_it(example: str) -> None:
    text, expected = EXAMPLES[example]
    assert parse_properties(text) == expected


def written(text: str) -> str:
    """Escaped as `java.util.Properties.store` does, only more of it."""
    return "".join(c if c.isalnum() and c.isascii() else f"\\u{ord(c):04x}" for c in text)


characters = st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])


@given(st.dictionaries(st.text(characters, min_size=1), st.text(characters)))
def test_what_is_written_with_escapes_is_read_back(settings: dict[str, str]) -> None:
    text = "\n".join(f"{written(key)}={written(value)}" for key, value in settings.items())
    assert parse_properties(text) == settings


@given(st.text(st.sampled_from("\\u0a =:#!\t\r\n")))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(Usage):
        assert all("\n" not in key for key in parse_properties(text.replace("\\", "\\\\")))
        parse_properties(text)


def test_a_broken_escape_is_refused() -> None:
    with pytest.raises(Usage, match="four hex digits"):
        parse_properties("sasl.password=abc\\uzz")


def test_a_file_is_latin_1_as_in_java(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_bytes(b"client.id=caf\xe9\n")
    assert read_properties(file) == {"client.id": "café"}


@pytest.mark.parametrize("name", ["missing.properties", ""], ids=["no such file", "a folder"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(Usage, match=str(tmp_path / name)):
        read_properties(tmp_path / name)
