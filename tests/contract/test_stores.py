"""Every sink that a pipeline file can name, held to what ships as `fencepost.testing`."""

from __future__ import annotations

import pytest

from contract.subjects import STORES, params
from fencepost.testing import StoreSubject, StoreSuite


class TestStores(StoreSuite):
    @pytest.fixture(params=params(STORES))
    def subject(self, request: pytest.FixtureRequest) -> StoreSubject:
        made: StoreSubject = STORES[request.param](request)
        return made
