"""Every remedy that is a command or a statement is followed by a test, or it is said here why not."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "fencepost"
COMMANDS = (
    "audit|consume|demo|doctor|down|group|init|peek|plan|positions|produce|receipt|run|spec|stack|status|topic|up"
)
ACTS = re.compile(
    rf"fencepost (?:{COMMANDS})\b|\b(?:ALTER TABLE|GRANT [A-Z{{]|CREATE UNIQUE)|keytool|kafka-[a-z-]+\.sh"
)
ONLY_LOOKS = re.compile(r"fencepost (?:group (?:list|describe)|topic (?:list|describe)|audit|(?:stack )?status)\b")

# What the source says, with {} for what it fills in, and the test that does it.
FOLLOWED = {
    "fencepost positions set --topic {} --to {}": "test_records_that_are_gone_are_gone_over_and_nothing_else_moves",
    "to read the new one from its start: fencepost positions set --topic {} --to earliest": (
        "test_a_topic_that_was_made_anew_is_read_from_its_start"
    ),
    "say where to go on: `fencepost positions set --to earliest` (everything again), `--to latest` (only what comes "
    "from now on), or `--to 0:120,1:7` (each partition by its offset); or take an empty topic": (
        "test_a_topic_that_was_made_anew_is_read_from_its_start"
    ),
    "say where to go on with `fencepost positions set`, or use an empty table": (
        "test_offsets_name_every_partition_where_nobody_knows_how_far_the_others_were_read"
    ),
    "`engine: python` takes it or puts it aside; or go on behind it with `fencepost positions set`": (
        "test_a_time_that_spark_cannot_read_is_named_and_the_other_engine_takes_it"
    ),
    "drop it in the transform, or: ALTER TABLE {} {}": "test_columns_that_a_table_lacks_are_added_by_the_statement",
    "ALTER TABLE {} {}": "test_a_key_that_may_be_null_is_mended_by_the_statement",
    "CREATE UNIQUE INDEX ON {} ({}); {}": "test_a_key_gets_its_unique_index_and_is_never_null_by_the_statements",
}
_STACK = "starts the local stack: the suites of the stack do nothing else"
_MAKES = "names the command that makes a file or a topic: the suites of those commands run it"
NOT_FOLLOWED = {
    "leave it away; after a loss, say where to go on with `fencepost positions set`": "the setting is left away; the "
    "loss itself then says which command",
    "run `fencepost up`, or give --bootstrap-server": _STACK,
    "run `fencepost up`, or set kafka.bootstrap.servers and sink.options.dsn": _STACK,
    "start one with `fencepost up`": _STACK,
    "`fencepost up` starts one": _STACK,
    "`fencepost up` starts what is down": _STACK,
    "`fencepost up` ends them": _STACK,
    "fencepost up": _STACK,
    "make it: fencepost topic create {}": _MAKES,
    "see `fencepost init`": _MAKES,
    "see the file that `fencepost init NAME` makes": _MAKES,
    "make one with `fencepost init NAME`, or give --spec": _MAKES,
    "`fencepost init FOLDER`, then in it `fencepost init --db --role NAME`": _MAKES,
    "{} and transforms.py written: cd {} && fencepost run --once": "no remedy: what to do next",
    "convert it (keytool -list -rfc -keystore {} > ca.pem), then set it to that file, and ssl.truststore.type=PEM": (
        "a tool of Java's, with files that only their owner has"
    ),
    "convert it (keytool -importkeystore -srckeystore {} -destkeystore key.p12 -deststoretype PKCS12), then set it to "
    "that file, and ssl.keystore.type=PKCS12": "a tool of Java's, with files that only their owner has",
    "kafka-consumer-groups.sh --bootstrap-server {} --group {} --reset-offsets": "a tool of Kafka's, which is not part "
    "of the stack",
    "GRANT {} ON {} {} TO {}": "executed by `init --db` itself, whose suite does",
    'GRANT CREATE ON SCHEMA "{}" TO "{}"': "a right that only the owner of the schema can give",
}


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    return "{}" if isinstance(node, ast.FormattedValue) else ""


def _said(path: Path) -> Iterator[str]:
    """Every text of a file, without its docstrings."""
    tree = ast.parse(path.read_text())
    inside = {id(below) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for below in ast.walk(node)}
    documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        whole = isinstance(node, ast.JoinedStr) or id(node) not in inside
        if isinstance(node, ast.Constant | ast.JoinedStr) and whole and id(node) not in documented:
            yield _text(node)


def _acting() -> set[str]:
    texts = {text for path in SOURCE.rglob("*.py") for text in _said(path)}
    return {text for text in texts if ACTS.search(ONLY_LOOKS.sub("", text))}


def test_every_command_and_statement_is_listed() -> None:
    assert _acting() - FOLLOWED.keys() - NOT_FOLLOWED.keys() == set(), "write a test that follows it, and list it here"


def test_nothing_is_listed_that_nobody_says_any_more() -> None:
    assert (FOLLOWED.keys() | NOT_FOLLOWED.keys()) - _acting() == set()


def _followers() -> Iterator[Path]:
    for folder in ("remedies", "hostile"):
        yield from (TESTS / folder).glob("test_*.py")


@pytest.mark.parametrize("name", sorted(set(FOLLOWED.values())))
def test_the_test_that_follows_it_is_there(name: str) -> None:
    assert any(f"def {name}(" in path.read_text() for path in _followers())
