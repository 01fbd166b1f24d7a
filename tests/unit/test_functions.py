"""Somebody's function: what is wrong with it is one line with its file and line, and it never ends the process."""

from __future__ import annotations

import inspect
from pathlib import Path

import pyarrow as pa
import pytest

from fencepost.errors import Usage
from fencepost.rows.functions import Exited, FunctionName
from fencepost.rows.shape import RowShape

WRONG = {
    "a syntax error": ("def f(events):\n    return (\n", "line 2: "),
    "a tab too many": ("def f(events):\n\treturn 1\n        return 2\n", "line 3: "),
    "NUL": ("def f(events): pass\n\0", "source code string cannot contain null bytes"),
    "an error at import": ("import json\n\njson.loads('{')\n", "JSONDecodeError"),
    "an error of its own line": ("x = 1\nraise ValueError('no')\n", "ValueError: no ({file} line 2)"),
    "sys.exit at import": ("import sys\nsys.exit(3)\n", "it called sys.exit(3) ({file} line 2)"),
    "SystemExit at import": ("raise SystemExit('bye')\n", "it called sys.exit('bye') ({file} line 1)"),
    "GeneratorExit at import": ("raise GeneratorExit\n", "GeneratorExit"),
    "a module that is missing": ("import not_there_at_all\n", "No module named 'not_there_at_all' ({file} line 1)"),
    "nothing": ("", "has no function 'f'"),
    "no function": ("f = 5\n", "has no function 'f'"),
    "a class": ("class f:\n    def __init__(self, events): pass\n", "is a class"),
    "async": ("async def f(events): pass\n", "is async"),
    "an async generator": ("async def f(events): yield\n", "is async"),
    "an async object": ("class C:\n    async def __call__(self, events): pass\nf = C()\n", "is async"),
    "a part of something async": (
        "import functools\nasync def g(a, b): pass\nf = functools.partial(g, 1)\n",
        "is async",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_file_that_does_not_give_a_function_is_one_line(name: str, tmp_path: Path) -> None:
    content, words = WRONG[name]
    file = tmp_path / "t.py"
    file.write_text(content)
    with pytest.raises(Usage) as refused:
        FunctionName("t.py:f", str(tmp_path)).load()
    assert words.format(file=file) in refused.value.message
    assert "t.py" in refused.value.message
    assert "\n" not in str(refused.value)


def test_bytes_that_are_no_python_are_one_line(tmp_path: Path) -> None:
    (tmp_path / "t.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Usage, match=r"t\.py"):
        FunctionName("t.py:f", str(tmp_path)).load()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit(3)", r"sys.exit\(3\)"),
        ("raise SystemExit", r"sys.exit\(None\)"),
        ("raise GeneratorExit", "Generator"),
    ],
)
def test_a_function_that_wants_to_end_the_process_only_fails(body: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(f"import sys\ndef f(batch):\n    {body}\n")
    with pytest.raises(Exited, match=rf"{words}.*t\.py line 3"):
        FunctionName("t.py:f", str(tmp_path)).load()(1)


@pytest.mark.parametrize(
    "content", ["def f(a, b=2): return a + b\n", "class C:\n    def __call__(self, a, b=2): return a + b\nf = C()\n"]
)
def test_everything_else_is_called_as_it_is(content: str, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text(content)
    function = FunctionName("t.py:f", str(tmp_path)).load()
    assert (function(1), function(1, b=3)) == (3, 4)
    assert list(inspect.signature(function).parameters) == ["a", "b"]
    with pytest.raises(TypeError):
        function()


@pytest.mark.parametrize(
    "text", ["f", ":f", "t.py:", "t.py:f()", "t.py:a b", "nowhere_at_all:f", "..:f", "json:nothing"]
)
def test_a_name_that_names_nothing_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "t.py").touch()
    with pytest.raises(Usage):
        FunctionName(text, str(tmp_path)).load()


def test_a_column_without_a_type_on_an_empty_batch_is_named_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "import pyarrow as pa\n\n"
        "def f(batch):\n"
        "    n = [len(value) for value in batch.column('value').to_pylist()]\n"
        "    return pa.RecordBatch.from_pydict({'n': n, '_from': batch.column('_from')})\n"
    )
    source = pa.schema([("value", pa.binary()), ("_from", pa.int64())])
    with pytest.raises(Usage, match="column 'n' has no type when the batch is empty") as refused:
        RowShape(provenance=True, arrow=FunctionName("shop.py:f", str(tmp_path))).made_schema(source)
    assert refused.value.remedy == "give it one: pyarrow.array(n, pyarrow.string()), or whatever it holds"
