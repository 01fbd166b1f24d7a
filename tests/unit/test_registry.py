"""Sinks of other packages, and what is said of those that do not load."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.errors import Usage
from fencepost.sinks import registry
from fencepost.sinks.kind import require_streams
from fencepost.spec import parse

BROKEN = "import nothing_of_that_name"
FILE = """
name: shop
guarantee: exactly-once
source: {topic: orders}
sink: {format: FORMAT, options: {table: orders, tabel: x}}
"""


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    yield from _forgotten()


def _forgotten() -> Iterator[None]:
    registry.kind.cache_clear()
    registry._others.cache_clear()
    yield
    registry.kind.cache_clear()
    registry._others.cache_clear()


class Packages:
    """A folder as pip leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, package: str, entry: str, code: str = "") -> None:
        facts = self.folder / f"{package}-1.dist-info"
        facts.mkdir()
        (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (facts / "entry_points.txt").write_text(f"[fencepost.sinks]\n{entry}\n")
        (self.folder / f"{package}.py").write_text(code)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packages:
    monkeypatch.syspath_prepend(tmp_path)
    return Packages(tmp_path)


def refusal(name: str) -> str:
    with pytest.raises(Usage) as told:
        registry.kind(name)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_a_name_that_nobody_registered() -> None:
    assert refusal("paper") == "there is no sink 'paper': one of postgres, kafka, delta, iceberg, parquet"


@pytest.mark.parametrize(
    ("code", "why"),
    [
        (BROKEN, "ModuleNotFoundError: No module named 'nothing_of_that_name'"),
        ("raise RuntimeError('one\\ntwo')", "RuntimeError: one two"),
        ("", "AttributeError: module 'paper_sink' has no attribute 'KIND'"),
        ("KIND = object()", "paper_sink:KIND is no SinkKind: it has no capabilities, options"),
        (
            "class KIND: capabilities = options = settings = columns = fit = prepare = ledger = None",
            "its options are no SinkOptions",
        ),
    ],
)
def test_a_kind_that_does_not_load_is_told_in_one_line(
    packages: Packages, code: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(__import__("sys").modules, "paper_sink", raising=False)
    packages.add("paper_sink", "paper = paper_sink:KIND", code)
    told = refusal("paper")
    assert told.startswith("sink 'paper' does not load: ")
    assert why in told
    assert told.endswith("repair or uninstall paper_sink")
    assert registry.names() == ["postgres", "kafka", "delta", "iceberg", "parquet", "paper"]


def test_a_package_that_does_not_load_is_nobodys_trouble_who_does_not_use_it(packages: Packages) -> None:
    packages.add("paper_sink", "paper = paper_sink:KIND", BROKEN)
    with pytest.raises(Usage, match=r"sink.options.tabel: no such key; did you mean 'table'\?"):
        parse(FILE.replace("FORMAT", "postgres"))
    with pytest.raises(Usage, match="sink 'paper' does not load"):
        parse(FILE.replace("FORMAT", "paper"))


def test_a_name_of_ours_cannot_be_taken(packages: Packages) -> None:
    packages.add("paper_sink", "postgres = paper_sink:KIND", "KIND = None")
    told = "sink 'postgres' is registered twice: by fencepost and paper_sink: uninstall paper_sink"
    assert refusal("postgres") == told
    assert registry.kind("kafka").capabilities.name == "kafka"


def test_two_packages_with_one_name(packages: Packages) -> None:
    packages.add("paper_sink", "paper = paper_sink:KIND")
    packages.add("other_sink", "paper = other_sink:KIND")
    assert "is registered twice: by" in refusal("paper")


@pytest.mark.parametrize("name", ["kafka", "parquet"])
def test_a_sink_whose_positions_move_one_by_one_takes_no_stream_with_state(name: str) -> None:
    with pytest.raises(Usage, match="moves the positions of a batch one by one: of a stream with state"):
        require_streams(registry.kind(name))


@pytest.mark.parametrize("name", ["postgres", "delta", "iceberg"])
def test_a_sink_whose_positions_move_at_once_takes_them(name: str) -> None:
    require_streams(registry.kind(name))
