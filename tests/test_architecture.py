"""Imports point one way. The table is the architecture; a module that is not in it fails."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "fencepost"

# each part may import the parts named behind it, and itself
CORE = {"errors", "guarantee", "model"}
ALLOWED = {
    "guarantee": set(),
    "model": set(),
    "outcome": set(),
    "halving": set(),
    "visible": set(),
    "counting": set(),
    "errors": {"guarantee"},  # for a type only
    "patience": {"errors"},
    "delivery": CORE,
    "brake": {"errors", "model"},
    "rules": CORE,
    "news": {"model", "counting"},
    "trust": {"errors"},
    "spec": CORE | {"brake", "trust"},
    "gaps": {"model", "news", "delivery", "cluster"},
    "transforms": {"errors"},
    "machine": {"errors", "visible"},
    "cluster": CORE | {"rules"},
    "producing": CORE | {"rules", "cluster", "outcome", "halving"},
    "ledgers": CORE | {"delivery"},
    # the Kafka sink is a producer, through the same client
    "sinks": CORE | {"counting", "delivery", "rules", "ledgers", "outcome", "cluster", "producing", "halving"},
    # upsert and dedupe: the transform is run again, as both engines run it
    "audit": CORE
    | {"counting", "outcome", "visible", "cluster", "sinks", "spec", "spark", "consuming", "rows", "transforms"},
    "spark": CORE
    | {
        "brake",
        "delivery",
        "rules",
        "news",
        "gaps",
        "spec",
        "transforms",
        "halving",
        "rows",
        "cluster",
        "sinks",
        "machine",
    },
    "conforming": {"errors", "sinks"},
    "rows": {"errors", "model", "halving", "transforms", "conforming", "sinks"},
    "consuming": CORE
    | {
        "brake",
        "delivery",
        "rules",
        "news",
        "gaps",
        "patience",
        "spec",
        "transforms",
        "rows",
        "halving",
        "cluster",
        "sinks",
    },
    "standby": {"errors", "news", "spec", "sinks"},
    "refusals": CORE | {"rules"},
    "pipeline": CORE | {"delivery", "news", "rules", "patience", "spec", "spark", "consuming", "standby"},
    "adoption": {"counting", "errors", "model", "spec", "cluster"},
    "metrics": {"errors", "model", "news"},
    "standing": {"guarantee", "model", "spec", "sinks"},
    "status": {"model", "spec", "cluster", "standing"},
    "repositioning": {"errors", "model", "spec", "cluster", "standing"},
    "planning": CORE | {"rules", "rows", "spec", "cluster", "sinks", "spark", "consuming", "standing"},
    "preparing": {"guarantee", "rows", "rules", "spec", "sinks", "planning"},
    "local": {"errors", "machine", "trust"},
    "lab": CORE | {"delivery", "audit", "local", "cluster", "machine", "outcome", "producing"},
    "demo": CORE | {"outcome", "audit", "cluster", "producing", "local", "machine", "spec"},
    "templates": set(),
    "cli": {"*"},
    "__init__": {"errors", "guarantee", "pipeline", "producing", "consuming", "sinks"},
    "__main__": {"cli"},
}
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


def test_the_core_idea_stays_in_one_short_file() -> None:
    assert len((SOURCE / "delivery.py").read_text().splitlines()) < 150


@pytest.mark.parametrize("part", ["errors", "guarantee", "model", "delivery", "rules"])
def test_the_core_needs_no_library(part: str) -> None:
    tree = ast.parse((SOURCE / f"{part}.py").read_text())
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert not HEAVY & {name.split(".")[0] for name in names}
