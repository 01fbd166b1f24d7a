"""The glossary: in order, each word once, and none that is gone."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"
WORDS = re.findall(r"^\| (?!word|---)([a-z][^|]*?) \|", GLOSSARY.read_text(), re.MULTILINE)


def _everything() -> str:
    pages = [page for page in (ROOT / "docs").glob("*.md") if page != GLOSSARY]
    return "\n".join(file.read_text().lower() for file in [*pages, *(ROOT / "src").rglob("*.py")])


def test_words_are_in_order_and_there_once() -> None:
    assert WORDS
    assert sorted(set(WORDS)) == WORDS


def test_every_word_is_still_in_use() -> None:
    text = _everything()
    assert [word for word in WORDS if not re.search(rf"\b{re.escape(word)}", text)] == []
