"""Hostile input, by name: what a legal user, a broken sender or an attacker can put into a record, a name or a text.

Every entrance takes the same lists: a clean error with its exit code, or correct work.
"""

from __future__ import annotations

DIGITS = "9" * 5_000  # more than Python turns into an integer by itself
DEEP = 100_000

TEXTS: dict[str, str] = {
    "empty": "",
    "space": " ",
    "markup": "[/x]",
    "markup that opens": "[bold red]loud[/]",
    "markup link": "[link=https://example.org]here[/link]",
    "escape": "\x1b[2J\x1b[31mred\x1b[0m",
    "title": "\x1b]0;owned\x07",
    "hyperlink": "\x1b]8;;https://example.org\x1b\\here\x1b]8;;\x1b\\",
    "C1": "\x9b31mred\x9c",
    "bell and backspace": "safe\x07\x08\x08\x08\x08evil",
    "delivery return": "safe\revil",
    "line feed": "one\ntwo",
    "tab": "a\tb",
    "NUL": "a\x00b",
    "delete": "a\x7fb",
    "right to left": "\u202egnp.exe",
    "isolates": "\u2066a\u2069\u200e\u200f",
    "zero width": "a\u200bb\u200cc\u200dd\u2060e\ufeff",
    "line separator": "one\u2028two\u2029three\u0085four",
    "tags": "a\U000e0041\U000e007f",
    "combining": "a" + "\u0301" * 200,
    "wide": "価格",
    "astral": "\U0001f600",
    "not a character": "\ufffe\uffff",
    "percent": "%s%d%n 100%",
    "braces": "{0.__class__} {x}",
    "quotes": "a'b\"c`d",
    "backslash": "a\\b\\x1b",
    "SQL": "x'; DROP TABLE orders; --",
    "HTML": "<script>alert(1)</script>&amp;\"'",
    "shell": "$(touch owned) `id` ; | & > <",
    "path": "../../etc/passwd",
    "option": "--yes",
    "long": "x" * 300,
}
"""What stands in fields, names, messages and paths. All of them are valid Unicode."""

SURROGATE = "a\ud800b"
"""No Unicode at all: what `"\\ud800"` in JSON becomes in Python, and no UTF-8 can hold."""

JSON_VALUES: dict[str, str] = {
    "null": "null",
    "true": "true",
    "zero": "0",
    "minus zero": "-0",
    "minus zero point": "-0.0",
    "long": str(2**63 - 1),
    "over long": str(2**63),
    "under long": str(-(2**63) - 1),
    "int": str(2**31),
    "5,000 digits": DIGITS,
    "minus 5,000 digits": f"-{DIGITS}",
    "5,000 decimal places": f"0.{DIGITS}",
    "huge": "1e400",
    "huge exponent": "1e99999999999999999999",
    "tiny": "1e-400",
    "tiny exponent": "1e-99999999999999999999",
    "NaN": "NaN",
    "Infinity": "Infinity",
    "minus Infinity": "-Infinity",
    "NaN as text": '"NaN"',
    "sNaN as text": '"sNaN"',
    "Infinity as text": '"Infinity"',
    "number as text": '"12.50"',
    "number with spaces": '" 12 "',
    "number with underscores": '"1_000"',
    "other digits": '"\u0661\u0662"',
    "hexadecimal": '"0x10"',
    "empty text": '""',
    "lone surrogate": '"a\\ud800b"',
    "surrogate pair": '"\\ud83d\\ude00"',
    "reversed pair": '"\\ude00\\ud83d"',
    "NUL": '"a\\u0000b"',
    "escape": '"\\u001b[31mred"',
    "bidi": '"\\u202egnp.exe"',
    "markup": '"[/x]"',
    "year 1": '"0001-01-01T00:00:00+23:59"',
    "year 9999": '"9999-12-31T23:59:59.999999-23:59"',
    "year 10000": '"10000-01-01T00:00:00Z"',
    "year 0": '"0000-01-01"',
    "no such day": '"2026-02-30"',
    "leap second": '"2016-12-31T23:59:60Z"',
    "nanoseconds": '"2026-01-01T00:00:00.123456789Z"',
    "no zone": '"2026-01-01T00:00:00"',
    "week date": '"2026-W01-1"',
    "zone of a day": '"2026-01-01T00:00:00+24:00"',
    "infinity as time": '"infinity"',
    "epoch seconds": "1767225600",
    "epoch beyond": "99999999999999999",
    "array": "[1, [2, [3]]]",
    "object": '{"a": {"b": null}}',
    "text of 1 MB minus": f'"{"x" * 900_000}"',
}
"""JSON literals for one field: `value_with(literal)` makes an event of each."""


def value_with(literal: str, id_: int = 0, field: str = "v") -> bytes:
    """An event with an id and that field."""
    return f'{{"id": {id_}, "{field}": {literal}}}'.encode()


VALUES: dict[str, bytes | None] = {
    "tombstone": None,
    "empty": b"",
    "spaces": b"   ",
    "NUL": b"\x00",
    "line end": b"\n",
    "not UTF-8": b'{"id": 1, "v": "\xff\xfe"}',
    "overlong UTF-8": b'{"id": 1, "v": "\xc0\xaf"}',
    "surrogate in UTF-8": b'{"id": 1, "v": "\xed\xa0\x80"}',
    "UTF-16": '{"id": 1}'.encode("utf-16"),
    "BOM": b'\xef\xbb\xbf{"id": 1}',
    "half": b'{"id": 1, "v"',
    "two documents": b'{"id": 1}{"id": 2}',
    "trailing comma": b'{"id": 1,}',
    "single quotes": b"{'id': 1}",
    "comment": b'{"id": 1} // no',
    "double key": b'{"id": 1, "id": 2}',
    "empty key": b'{"": 1}',
    "other case": b'{"ID": 1, "Id": 2}',
    "array": b"[1, 2]",
    "text": b'"just text"',
    "number": b"12",
    "null": b"null",
    "NaN": b"NaN",
    "5,000 digits": DIGITS.encode(),
    "deep array": b"[" * DEEP + b"]" * DEEP,
    "deep object": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "deep, never closed": b"[" * DEEP,
    "escape sequences": b"\x1b[2J\x1b]0;owned\x07",
    "id as text": b'{"id": "1"}',
    "id as half": b'{"id": 1.5}',
    "id too large": b'{"id": 9223372036854775808}',
    "no id": b'{"v": 1}',
    "lone surrogate as key": b'{"\\ud800": 1, "id": 1}',
    "NUL as key": b'{"a\\u0000": 1, "id": 1}',
}
"""Whole values of records, as bytes; None is a tombstone."""

VALUES |= {f"field: {name}": value_with(literal) for name, literal in JSON_VALUES.items()}

KEYS: dict[str, bytes | None] = {
    "none": None,
    "empty": b"",
    "NUL": b"\x00",
    "not UTF-8": b"\xff\xfe",
    "escape": b"\x1b[31m",
    "markup": b"[/x]",
    "long": b"k" * 10_000,
}

HEADERS: dict[str, list[tuple[str, bytes | None]]] = {
    "none": [],
    "empty name": [("", b"")],
    "null value": [("h", None)],
    "twice": [("h", b"1"), ("h", b"2")],
    "escape": [("\x1b[31m", b"\x1b[31m")],
    "markup": [("[/x]", b"[/x]")],
    "ours, and broken": [("fencepost.id", b"\xff"), ("fencepost.crc32", b"zz")],
}

TIMESTAMPS: dict[str, int] = {
    "epoch": 0,
    "first": 1,
    "year 9999": 253_402_300_799_999,
    "year 10000": 253_402_300_800_000,
    "largest": 2**63 - 1,
}
"""Milliseconds that a sender can give a record (Kafka refuses negative ones; -1 is none)."""

NAMES: dict[str, str] = {
    **TEXTS,
    "dot": ".",
    "dots": "..",
    "59 bytes": "t" * 59,
    "63 bytes": "t" * 63,
    "64 bytes": "t" * 64,
    "umlaut at the edge": "t" * 62 + "ü",
    "dotted": "a.b.c",
    "upper": "Orders",
    "keyword": "select",
    "leading dash": "-n",
    "leading digit": "1st",
    "trailing space": "orders ",
    "leading space": " orders",
    "leading tab": "\torders",
    "system": "pg_catalog.pg_class",
}
"""For topics, groups, tables, columns, pipelines, roles, files."""

FILE_NAMES: dict[str, str] = {
    name: text for name, text in NAMES.items() if text not in ("", ".", "..") and not set(text) & set("/\0")
}
"""What a file or a folder can be called."""
FILE_NAMES = {name: text for name, text in FILE_NAMES.items() if len(text.encode()) < 256}

JOURNALS: dict[str, bytes] = {
    "text without a line end": b"precious",
    "text": b"precious\nlines\n",
    "half a line of text": b"precious\nlines and ha",
    "JSON of others": b'{"id": 1}\n{"id": 2}\n',
    "an array": b"[1]\n",
    "a number": b"1\n",
    "deep": b"[" * DEEP + b"\n",
    "not UTF-8": b"\xff\xfe\x00\n",
    "NUL": b"\x00" * 100,
    "one long line": b"x" * 200_000,
    "VerifiableProducer's": b'{"timestamp":1,"name":"startup_complete"}\n',
    "begins like one": b'{"journals": 1}\n',
    "half a key": b'{"journ": ',
    "escape": b"\x1b[2J\n",
}
"""Files that are no journal, and must never be cut or appended to."""
