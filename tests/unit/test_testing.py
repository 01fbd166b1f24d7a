"""The contract suites as other packages meet them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from fencepost.testing import AtomicSinkSuite, LedgerSuite, SinkSuite, StoreSuite

SUITES = (SinkSuite, LedgerSuite, AtomicSinkSuite, StoreSuite)


def test_no_test_of_one_suite_hides_another_ones_where_a_class_takes_all_of_them() -> None:
    names = Counter(name for suite in SUITES for name in vars(suite) if name.startswith("test_"))
    assert names.total() > 40
    assert [name for name, times in names.items() if times > 1] == []


def test_it_loads_without_pytest_and_a_suite_asks_for_it() -> None:
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "import fencepost.testing\n"
        "try: fencepost.testing.SinkSuite\n"
        "except ModuleNotFoundError as error: print(error.name)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "pytest\n"


def test_a_name_that_is_no_suite() -> None:
    import fencepost.testing

    with pytest.raises(AttributeError, match="Sweet"):
        fencepost.testing.SinkSweet  # noqa: B018
