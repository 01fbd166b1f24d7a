"""Imports point one way. The table is the architecture; a module that is not in it fails."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from fencepost.sinks.registry import _OURS

SOURCE = Path(__file__).parents[1] / "src" / "fencepost"

# each part may import the parts named behind it, and itself; a part further down never one that is further up
CORE = {"errors", "guarantee", "model"}
IDEA = CORE | {"fence", "delivery", "rules"}
ALLOWED = {
    "guarantee": set(),
    "model": set(),
    "errors": {"guarantee"},  # for a type only
    "fence": CORE,
    "delivery": CORE,
    "rules": CORE,
    "templates": set(),
    "machine": {"errors"},
    "rows": CORE,
    "kafka": CORE | {"fence", "rules", "machine"},
    "sinks": IDEA | {"machine", "rows", "kafka"},
    "testing": IDEA | {"sinks"},  # of sinks only the one in memory
    "spec": CORE | {"rules", "machine", "sinks"},
    "producing": IDEA | {"rows", "kafka"},
    "engines": IDEA | {"rows", "kafka", "sinks", "spec", "machine"},
    "run": IDEA | {"kafka", "machine", "sinks", "spec", "engines"},
    "spark": {"guarantee", "kafka", "spec", "engines"},
    "admin": IDEA | {"machine", "rows", "kafka", "sinks", "spec", "engines"},
    # upsert and dedupe: the transform is run again, as both engines run it
    "audit": IDEA | {"rows", "kafka", "sinks", "spec", "engines", "machine"},
    "local": {"errors", "machine"},
    "lab": IDEA | {"rows", "kafka", "producing", "sinks", "spec", "engines", "run", "audit", "machine", "local"},
    "demo": IDEA | {"kafka", "producing", "sinks", "spec", "engines", "audit", "machine", "local", "lab"},
    # the face of all that is above: nothing but the command line imports it
    "web": IDEA | {"rows", "kafka", "sinks", "spec", "engines", "admin", "audit", "lab", "machine"},
    "cli": {"*"},
    "__init__": {"spark", "errors", "guarantee", "model", "sinks", "engines", "run", "producing", "audit", "local"},
    "__main__": {"cli"},
}
# of fencepost.sinks, for everybody; the other modules there are sinks
DOOR = {"kind", "registry", "options", "auditing", "handlers", "demo", "knowing"}
MEMORY_FOR = {"__init__.py", "testing"}  # a store for users' tests, and for the contract's: nobody registers it
# programs, folders and wires of these names are no sinks; nor are the block of Kafka's settings, Spark's source and a
# client's log
PROGRAMS = {"local", "lab"}
NO_SINK = re.compile(r"""getLogger\("kafka"\)|kafka": |\("kafka", "spark"|\.format\("kafka"\)|, "kafka"\)$""")
HEAVY = {"pyspark", "confluent_kafka", "pyarrow", "psycopg", "kafka"}


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else "__init__"


def imports_of(path: Path) -> set[str]:
    """Every module of ours that the file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide where a module belongs"
            module = node.module or ""
            found.update(f"{module}.{alias.name}" if module == "fencepost" else module for alias in node.names)
    return {name for name in found if name.split(".")[0] == "fencepost"}


FILES = sorted(SOURCE.rglob("*.py"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    assert part in ALLOWED, f"{part} has no place in the architecture yet: give it one here"
    allowed = ALLOWED[part]
    if "*" in allowed:
        return
    wrong = {name for name in imports_of(path) if part_of(name) not in allowed | {part}}
    public = {"fencepost.__version__"}
    assert not wrong - public, f"{path.name} ({part}) may not import {sorted(wrong)}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_only_sinks_know_a_sink_by_its_name(path: Path) -> None:
    part = path.relative_to(SOURCE).parts[0]
    if part == "sinks":
        return
    door = DOOR | {"memory"} if part in MEMORY_FOR else DOOR
    found = {name for name in sinks_of(path) if name.split(".")[2] not in door}
    assert not found, f"ask sinks/registry.py instead of {found}"
    assert part in PROGRAMS or not names_a_sink(path), f"a sink's name: {names_a_sink(path)}"


def sinks_of(path: Path) -> set[str]:
    """Modules of fencepost.sinks that the file imports, by whatever form of import."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            found.update(
                [f"{module}.{alias.name}" for alias in node.names] if module == "fencepost.sinks" else [module]
            )
    return {name for name in found if name.startswith("fencepost.sinks.")}


def names_a_sink(path: Path) -> list[str]:
    """Lines in which a text is a registered sink's name, but for Kafka's block of settings and Spark's source."""
    lines, found = path.read_text().splitlines(), []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and node.value in _OURS:
            line = lines[node.lineno - 1].strip()
            if not NO_SINK.search(line):
                found.append(f"{node.lineno}: {line}")
    return found


def test_nobody_is_imported_from_further_up() -> None:
    order = list(ALLOWED)
    for part, allowed in ALLOWED.items():
        if part not in ("__init__", "errors", "delivery"):
            assert all(order.index(one) < order.index(part) for one in allowed - {"*"}), part


def test_the_core_idea_stays_in_one_short_file() -> None:
    assert len((SOURCE / "delivery.py").read_text().splitlines()) < 150


@pytest.mark.parametrize("part", ["errors.py", "guarantee.py", "model.py", "delivery.py", "rules/*.py"])
def test_the_core_needs_no_library(part: str) -> None:
    for path in SOURCE.glob(part):
        tree = ast.parse(path.read_text())
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert not HEAVY & {name.split(".")[0] for name in names}


def test_kafkas_error_codes_have_one_table() -> None:
    named = {
        path.relative_to(SOURCE).as_posix() for path in FILES if re.search(r"KafkaError\.[A-Z_]", path.read_text())
    }
    assert named == {"kafka/errors.py"}


PAGE = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()


def section(title: str) -> str:
    return PAGE.split(f"## {title}\n")[1].split("\n## ")[0]


def test_the_file_map_has_every_module_and_no_other() -> None:
    rows = re.findall(r"^\| `([\w/.]+)` \|[^|]*\|([^|]*)\|$", section("File map"), re.MULTILINE)
    told = {
        (Path(folder) / f"{name}.py").as_posix() for folder, names in rows for name in re.findall(r"`(\w+)`", names)
    }
    there = {path.relative_to(SOURCE).as_posix() for path in FILES if path.stem not in ("__init__", "__main__")}
    assert told == there, f"not in the map: {sorted(there - told)}; not in the tree: {sorted(told - there)}"


def test_where_to_start_exists() -> None:
    places = re.findall(r"`([\w/]+(?:\.py|\.sql|/))`", section("If you are looking for"))
    assert len(places) > 20
    assert not [place for place in places if not (SOURCE / place).exists()]
