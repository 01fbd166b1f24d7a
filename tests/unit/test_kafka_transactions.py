"""What becomes of a transaction, by what its client says when it is to be committed."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from fencepost.errors import Fenced, FencepostError, Unknown, Unreachable
from fencepost.kafka import transactions
from fencepost.kafka.producer import Aborting
from fencepost.kafka.transactions import TransactionalProducer


class Saying:
    """A client that answers as it is told."""

    commit_says: FencepostError | None = None
    abort_says: FencepostError | None = None
    was_repeated = False
    made: ClassVar[list[Saying]] = []

    def __init__(self, _settings: Any) -> None:
        self.closed = self.connected = self.began = False
        self.made.append(self)

    def connect(self, _topic: str) -> None:
        self.connected = True

    def begin(self) -> None:
        self.began = True

    def begin_transaction(self) -> None: ...

    def commit(self) -> None:
        if self.commit_says is not None:
            raise self.commit_says

    def abort(self) -> None:
        if self.abort_says is not None:
            raise self.abort_says

    def repeated(self) -> bool:
        return self.was_repeated

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def says(monkeypatch: pytest.MonkeyPatch) -> type[Saying]:
    class Told(Saying):
        made: ClassVar[list[Saying]] = []

    monkeypatch.setattr(transactions, "Client", Told)
    return Told


@pytest.mark.parametrize(
    ("commit", "abort", "repeated", "raised", "in_doubt"),
    [
        (Aborting("failed"), None, False, Aborting, False),
        (Aborting("failed"), Unreachable("silence"), False, Unknown, True),
        (Aborting("failed"), Fenced("replaced"), False, Unknown, True),
        (Fenced("replaced"), None, False, Fenced, False),
        (Fenced("replaced"), None, True, Fenced, True),  # the first of two requests may have been granted
        (Unreachable("silence"), None, False, Unknown, True),
    ],
)
def test_a_commit_that_fails(
    says: type[Saying],
    commit: FencepostError,
    abort: FencepostError | None,
    repeated: bool,
    raised: type[FencepostError],
    in_doubt: bool,
) -> None:
    says.commit_says, says.abort_says, says.was_repeated = commit, abort, repeated
    producer = TransactionalProducer({})
    client = producer.take()
    producer.begin()
    with pytest.raises(FencepostError) as error:
        producer.commit()
    assert (type(error.value), producer.in_doubt, producer.client) == (raised, in_doubt, None)
    assert client.closed  # type: ignore[attr-defined]
    producer.take()
    assert not producer.in_doubt


def test_the_client_stays_until_an_end_was_repeated(says: type[Saying]) -> None:
    producer = TransactionalProducer({})
    first = producer.ready()
    producer.begin()
    producer.commit()
    assert producer.ready() is first
    says.was_repeated = True
    assert producer.ready() is not first


@pytest.mark.parametrize("keep", [True, False])
def test_after_an_abort_the_client_stays_only_where_it_is_kept(says: type[Saying], keep: bool) -> None:
    producer = TransactionalProducer({})
    client = producer.take()
    producer.begin()
    producer.abort(keep)
    assert producer.client is (client if keep else None)
    says.abort_says = Unreachable("silence")
    producer.take()
    with pytest.raises(Unreachable):
        producer.abort(keep=True)
    assert producer.client is None


def test_who_is_connected_beforehand_takes_the_id_and_nothing_before(says: type[Saying]) -> None:
    producer = TransactionalProducer({}, "out")
    producer.connect()
    producer.connect()
    assert producer.client is None
    client: Any = producer.take()
    assert says.made == [client]
    assert (client.connected, client.began, client.closed) == (True, True, False)
    producer.connect()  # it is taken already
    assert says.made == [client]


def test_who_was_connected_and_takes_nothing_is_closed(says: type[Saying]) -> None:
    producer = TransactionalProducer({}, "out")
    producer.connect()
    producer.drop()
    (client,) = says.made
    assert (client.connected, client.began, client.closed) == (True, False, True)
    producer.take()
    assert len(says.made) == 2
