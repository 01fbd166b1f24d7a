"""`run --standby`: it waits while the owner lives, and carries on when it does not."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from uuid import uuid4

import pytest

from fencepost.engines.listener import News, Waiting
from fencepost.errors import Usage
from fencepost.run.standby import STALE_SECONDS, stand_by
from fencepost.sinks.postgres import PostgresSettings, PostgresStore
from fencepost.sinks.postgres.ledger import heartbeat
from fencepost.spec import load
from spark.drivers import never, run_command, wait_for
from spark.flows import Flow


def test_it_waits_while_the_owner_says_that_it_lives_and_no_longer(flow: Flow) -> None:
    spec = load(flow.declare())
    stand_by(spec, Event(), lambda _: None)  # nobody has ever run it
    told: list[News] = []
    with closing(PostgresStore(PostgresSettings(flow.stack.dsn, flow.name, flow.name, ()))) as owner:
        owner.take_over(flow.name, uuid4(), {flow.partition(0): 0}, {})
        waiting = Thread(target=stand_by, args=(spec, Event(), told.append), daemon=True)
        waiting.start()
        wait_for(lambda: told, "it says that it stands by")
        heartbeat(owner.connection(), "fencepost", flow.name)
        never(lambda: not waiting.is_alive(), "it takes a live owner for a dead one", 5)
    long_ago = "UPDATE fencepost.pipelines SET seen_at = now() - interval '1 hour', taken_at = NULL WHERE pipeline = %s"
    flow.sql(long_ago, flow.name)
    wait_for(lambda: not waiting.is_alive(), "it is its turn")
    assert [type(news) for news in told] == [Waiting]


def test_members_of_a_group_need_none(flow: Flow) -> None:
    with pytest.raises(Usage, match="standbys for each other"):
        stand_by(load(flow.declare(engine="python", transform=None)), Event(), lambda _: None)


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_when_the_owner_is_killed_the_one_that_stood_by_carries_on(flow: Flow, tmp_path: Path) -> None:
    flow.produce(range(100))
    spec = flow.declare()
    with run_command(spec) as owner:
        owner.wait_until(lambda: len(flow.landed()) == 100, "the owner carries")
        with run_command(spec, "--standby", "--format", "json") as other:
            other.wait_until(lambda: other.news("waiting"), "the other stands by")
            silence = STALE_SECONDS + 5  # after so long without a word the owner would count as gone
            never(other.spark, "it takes an owner that lives and idles for a dead one, and begins", silence)
            flow.produce(range(100, 200))
            owner.wait_until(lambda: len(flow.landed()) == 200, "the owner goes on")
            assert not other.news("started")
            owner.kill()
            flow.produce(range(200, 300))
            other.wait_until(lambda: len(flow.landed()) == 300, "the other carries on")
    flow.assert_exact(300)
