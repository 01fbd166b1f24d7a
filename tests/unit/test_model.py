"""The nouns refuse nonsense and cross process boundaries whole."""

from __future__ import annotations

import json
import pickle
from uuid import uuid4

import pytest

from fencepost.delivery import deliver
from fencepost.errors import FencepostError, Poison, UnsupportedGuarantee, _tree, from_facts
from fencepost.guarantee import Guarantee
from fencepost.model import Batch, Span, Tenure, TopicPartition
from fencepost.sinks.memory.ledger import MemoryLedger
from fencepost.sinks.memory.store import MemorySink

ORDERS = TopicPartition("orders", 0)


@pytest.mark.parametrize(("start", "end"), [(3, 2), (-1, 2)])
def test_a_span_that_runs_backwards_is_refused(start: int, end: int) -> None:
    with pytest.raises(ValueError, match="span"):
        Span(start, end)


def test_a_tenure_cannot_be_changed_from_outside() -> None:
    positions = {ORDERS: 1}
    tenure = Tenure("p", uuid4(), 1, positions)
    positions[ORDERS] = 9
    assert tenure.positions[ORDERS] == 1
    with pytest.raises(TypeError):
        tenure.positions[ORDERS] = 9  # type: ignore[index]


def test_batches_and_errors_cross_process_boundaries_whole() -> None:
    batch = Batch({ORDERS: Span(0, 3)}, [1, 2, 3], Tenure("p", uuid4(), 1, {ORDERS: 0}))
    assert pickle.loads(pickle.dumps(batch)) == batch  # noqa: S301 (our own bytes)
    error = UnsupportedGuarantee(Guarantee.EXACTLY_ONCE, "why", Guarantee.AT_LEAST_ONCE)
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301
    assert (str(copy), copy.nearest) == (str(error), error.nearest)


def test_an_error_crosses_as_json_with_everything_it_carries() -> None:
    error = Poison("orders/2", [(17, "not a number"), (19, "too long")])
    copy = from_facts(json.loads(json.dumps(error.facts())))
    assert isinstance(copy, Poison)
    assert str(copy) == str(error)
    assert [tuple(record) for record in copy.records] == error.records


def test_a_batch_says_what_it_covers() -> None:
    batch = Batch({ORDERS: Span(0, 3)}, (), Tenure("shop", uuid4(), 1, {ORDERS: 0}))
    assert str(batch) == "shop: orders/0 [0, 3)"
    assert batch.only_span() == (ORDERS, Span(0, 3))


def test_exactly_once_without_its_own_ledger_cannot_even_be_tried() -> None:
    ledger = MemoryLedger()
    tenure = ledger.take_over("p", uuid4(), {ORDERS: 0}, {})
    with pytest.raises(TypeError, match="own positions"):
        deliver(Guarantee.EXACTLY_ONCE, Batch({ORDERS: Span(0, 1)}, [0], tenure), MemorySink([]), ledger)


def test_every_error_has_an_exit_code_of_the_table() -> None:
    own = [kind for kind in _tree(FencepostError) if kind.__module__ == FencepostError.__module__]
    assert {kind.__name__: kind.exit_code for kind in own} == {
        "FencepostError": 1,
        "Usage": 2,
        "UnsupportedGuarantee": 2,
        "Unreachable": 3,
        "Fenced": 4,
        "Rewound": 3,
        "Unknown": 5,
        "Refused": 1,
        "Poison": 1,
        "Repeated": 1,
        "InputCut": 1,
        "PositionLost": 1,
        "TopicRecreated": 1,
        "RecordsGone": 1,
        "CheckpointMismatch": 1,
    }
