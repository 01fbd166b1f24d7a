"""Numbers with their noun."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fencepost.machine.counting import count

SOURCE = Path(__file__).parents[2] / "src" / "fencepost"
NOUNS = "batches|events|ids|lines|members|offsets|partitions|records|replicas|rows|tasks"
BARE = re.compile(rf"\{{[^{{}}]*:,\}} (?:{NOUNS})\b|\{{len\([^{{}}]*\)\}} (?:{NOUNS})\b")


@pytest.mark.parametrize(("number", "said"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1000, "1,000 rows")])
def test_one_is_not_many(number: int, said: str) -> None:
    assert count(number, "row") == said


def test_a_plural_of_its_own() -> None:
    assert (count(1, "batch", "batches"), count(2, "batch", "batches")) == ("1 batch", "2 batches")


def test_nobody_counts_without_it() -> None:
    """But for numbers that are never one."""
    never_one = {
        "rules/brake.py",
        "engines/spark/excluded.py",
        "producing/callbacks.py",
        "cli/audit.py",
        "demo/story.py",
        "demo/brokers.py",
    }
    found = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if BARE.search(path.read_text())}
    assert found <= never_one
