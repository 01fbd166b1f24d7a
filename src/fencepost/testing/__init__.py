"""The contract suites: what every sink and every ledger must do, for ours and for those of other packages.

    class TestMySink(SinkSuite, LedgerSuite, AtomicSinkSuite, StoreSuite):
        @pytest.fixture
        def subject(self, tmp_path):
            return InMyPlace(tmp_path)  # see AtomicSubject

The suites need pytest, and load when they are asked for. docs/sinks.md has an example.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from fencepost.testing.subjects import AtomicSubject, LedgerSubject, SinkSubject, StoreSubject

if TYPE_CHECKING:
    from fencepost.testing.atomic_sinks import AtomicSinkSuite
    from fencepost.testing.ledgers import LedgerSuite
    from fencepost.testing.sinks import SinkSuite
    from fencepost.testing.stores import StoreSuite

__all__ = [
    "AtomicSinkSuite",
    "AtomicSubject",
    "LedgerSubject",
    "LedgerSuite",
    "SinkSubject",
    "SinkSuite",
    "StoreSubject",
    "StoreSuite",
]

_SUITES = {
    "SinkSuite": "fencepost.testing.sinks",
    "LedgerSuite": "fencepost.testing.ledgers",
    "AtomicSinkSuite": "fencepost.testing.atomic_sinks",
    "StoreSuite": "fencepost.testing.stores",
}


def __getattr__(name: str) -> object:
    """A suite. pytest shows what each side of its assertions was, as in a test file."""
    if name not in _SUITES:
        raise AttributeError(f"module 'fencepost.testing' has no attribute {name!r}")
    import pytest

    pytest.register_assert_rewrite(_SUITES[name])
    return getattr(import_module(_SUITES[name]), name)
