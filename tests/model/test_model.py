"""The product against its model."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from fencepost.consuming import member
from fencepost.local import Stack
from model.case import Case
from model.drawing import cases
from model.driving import Field
from model.playing import play


@pytest.fixture(scope="module")
def field(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Field]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(member, "POLL_SECONDS", 0.02)  # a read waits so long for a full batch: many short runs
        yield Field(stack, Path(tmp_path_factory.mktemp("model")))


@settings(
    max_examples=int(os.environ.get("MODEL_EXAMPLES", "100")),
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(case=cases())
def test_the_product_does_what_its_model_says(field: Field, case: Case) -> None:
    play(field, case)
