"""The library's face: what `fencepost` exports, from where, without loading anything before it is asked for."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import fencepost
from fencepost.run.consume import consume

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text()
PUBLIC = [
    "Event",
    "Fenced",
    "FencepostError",
    "Guarantee",
    "MemoryStore",
    "Outcome",
    "Output",
    "Pipeline",
    "Producer",
    "Refused",
    "Stack",
    "Summary",
    "Unknown",
    "Unreachable",
    "Usage",
    "__version__",
    "audit",
    "consume",
    "receipt",
]


def test_these_names_are_public_and_no_others() -> None:
    assert fencepost.__all__ == PUBLIC
    assert set(PUBLIC) <= set(dir(fencepost))
    with pytest.raises(AttributeError, match="no attribute 'Pipelines'"):
        fencepost.Pipelines  # noqa: B018


@pytest.mark.parametrize("name", PUBLIC)
def test_each_is_there_and_explains_itself(name: str) -> None:
    found = getattr(fencepost, name)
    assert name == "__version__" or (found.__doc__ and callable(found))


@pytest.mark.parametrize("name", PUBLIC)
def test_each_has_an_example(name: str) -> None:
    examples = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    assert re.search(rf"\bfencepost\.{name}\b|^from fencepost import .*\b{name}\b", examples, re.MULTILINE)


def loaded_by(statement: str) -> list[str]:
    program = f"import sys; {statement}; print(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()


def test_the_import_loads_no_library() -> None:
    heavy = {"confluent_kafka", "pyspark", "pyarrow", "psycopg", "pydantic", "yaml", "duckdb", "typer"}
    assert not heavy & set(loaded_by("import fencepost"))
    assert not heavy & set(loaded_by("from fencepost import Fenced, FencepostError, Guarantee, Outcome"))


@pytest.mark.parametrize("before", ["pass", "import fencepost.audit.request", "import fencepost; fencepost.audit"])
def test_the_audit_can_be_called_whatever_was_imported_before(before: str) -> None:
    """`fencepost.audit` is a package too, which Python puts in the function's place."""
    call = (
        "import fencepost; from fencepost import audit\ntry: audit('nowhere.yml')\nexcept fencepost.Usage: print('ok')"
    )
    program = f"{before}\n{call}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "ok\n"


def test_a_producer_has_what_its_user_needs_and_no_more() -> None:
    public = [name for name in dir(fencepost.Producer) if not name.startswith("_")]
    assert public == ["close", "flush", "guarantee", "in_flight", "producer_id", "send", "totals", "transaction"]


def test_every_option_of_consume_is_typed_and_explained() -> None:
    options = inspect.signature(consume).parameters
    assert not [one for one in options.values() if one.kind is inspect.Parameter.VAR_KEYWORD]
    assert all(one.annotation not in (inspect.Parameter.empty, "Any") for one in options.values())
    said = inspect.getdoc(consume) or ""
    obvious = {"topic", "group", "guarantee", "kafka"}
    assert not [name for name in options if name not in obvious and f"`{name}" not in said]
