"""The lab's stack is its own: nothing of the shell that it was started in leads its clients elsewhere."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost.lab.scenarios import field


def test_libpqs_variables_are_out_of_the_way_while_a_stack_is_up(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str | None] = []

    def keeping(_folder: Path) -> None:
        seen.append(os.environ.get("PGPASSWORD"))
        raise KeyboardInterrupt

    monkeypatch.setattr(field, "keeping", keeping)
    monkeypatch.setenv("PGPASSWORD", "of another server")
    with pytest.raises(KeyboardInterrupt), field.opened():
        pass
    assert seen == [None]
    assert os.environ["PGPASSWORD"] == "of another server"
