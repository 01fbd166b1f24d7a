"""Every ledger, held to what ships as `fencepost.testing`."""

from __future__ import annotations

import pytest

from contract.subjects import LEDGERS, params
from fencepost.testing import LedgerSubject, LedgerSuite


class TestLedgers(LedgerSuite):
    @pytest.fixture(params=params(LEDGERS))
    def subject(self, request: pytest.FixtureRequest) -> LedgerSubject:
        made: LedgerSubject = LEDGERS[request.param](request)
        return made
