"""Text from outside, made fit for a terminal: what would steer it, hide or turn text around is shown as an escape."""

from __future__ import annotations

import re
import unicodedata

# Control characters (C0, DEL, C1), format characters (bidi, zero width, tags), line separators, lone surrogates
_STEERING = {"Cc", "Cf", "Zl", "Zp", "Cs"}
# Letters and marks that have no shape of their own, and what is no character at all
_SHAPELESS = "\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\ufdd0-\ufdef"
_SUSPECT = re.compile(rf"[^ -~\u00a1-\u00ac\u00ae-\u02ff]|[{_SHAPELESS}]")
_SHORT = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str) -> str:
    """The text on one line, with `\\x1b` or `\\u202e` in place of each character that must not reach a terminal.

    A backslash stays as it is: what must be exact is read as JSON.
    """
    return _SUSPECT.sub(_escaped, text)


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    code = ord(character)
    harmless = unicodedata.category(character) not in _STEERING and code & 0xFFFE != 0xFFFE
    if harmless and not re.match(f"[{_SHAPELESS}]", character):
        return character
    if character in _SHORT:
        return _SHORT[character]
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
