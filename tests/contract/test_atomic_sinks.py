"""Every sink that claims exactly-once, held to what ships as `fencepost.testing`."""

from __future__ import annotations

import pytest

from contract.subjects import ATOMIC_SINKS, params
from fencepost.testing import AtomicSinkSuite, AtomicSubject


class TestAtomicSinks(AtomicSinkSuite):
    @pytest.fixture(params=params(ATOMIC_SINKS))
    def subject(self, request: pytest.FixtureRequest) -> AtomicSubject:
        made: AtomicSubject = ATOMIC_SINKS[request.param](request)
        return made
