"""The demo knows its sink by the kind's own door."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.demo.target import sink_called
from fencepost.errors import Usage
from fencepost.sinks import registry


def test_the_first_sink_that_can_be_shown_is_the_default() -> None:
    assert sink_called(None) == sink_called("postgres")


@pytest.mark.parametrize("name", ["postgres", "kafka", "delta", "iceberg"])
def test_what_a_kind_says_for_the_demo_are_options_of_its_own(name: str, tmp_path: Path) -> None:
    options = sink_called(name).demo.options("orders_shown", "host=localhost", tmp_path)
    assert "orders_shown" in registry.kind(name).options.model_validate(options).name


def test_a_sink_that_cannot_be_shown_is_refused() -> None:
    with pytest.raises(Usage, match="sink 'parquet' cannot be shown in the demo"):
        sink_called("parquet")
    with pytest.raises(Usage, match="there is no sink 'paper'"):
        sink_called("paper")
