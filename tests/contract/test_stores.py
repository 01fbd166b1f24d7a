"""Every sink that a pipeline file can name, held to what ships as `fencepost.testing`."""

from __future__ import annotations

import pytest

from contract.subjects import ATOMIC_SINKS, params
from fencepost.testing import StoreSubject, StoreSuite


class TestStores(StoreSuite):
    @pytest.fixture(params=params(name for name in ATOMIC_SINKS if name != "memory"))
    def subject(self, request: pytest.FixtureRequest) -> StoreSubject:
        made: StoreSubject = ATOMIC_SINKS[request.param](request)
        return made
