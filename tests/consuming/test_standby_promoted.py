"""A real streaming standby that is behind is promoted while a pipeline runs: the last commits are gone, no event is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from consuming.relays import QUICK
from fencepost.local import Stack
from spark.flows import SPARK, Flow
from support.standby import Pair, standby_pair

ENGINES: dict[str, dict[str, Any]] = {
    "python": {"engine": "python", "transform": None},
    "spark": {"spark": SPARK, "batch": {"every": "200ms"}},
}


@pytest.fixture
def pair() -> Iterator[Pair]:
    with standby_pair() as pair:
        yield pair


@pytest.mark.proof
@pytest.mark.parametrize("engine", ["python", "spark"])
def test_a_run_goes_on_behind_a_failover_that_forgot_its_commits_and_its_token(
    stack: Stack, tmp_path: Path, pair: Pair, engine: str
) -> None:
    flow = Flow(stack, tmp_path)
    if engine == "python":
        flow.kafka |= QUICK

    def landed() -> Counter[int]:
        try:
            return Counter(id_ for (id_,) in pair.sql(f"SELECT id FROM {flow.name}"))
        except psycopg.Error:  # while there is no database, or no table yet
            return Counter()

    def tokens() -> list[Any]:
        return pair.sql("SELECT DISTINCT owner FROM fencepost.positions")

    flow.produce(range(40))
    with flow.running(**ENGINES[engine], options={"dsn": pair.dsn}) as run:
        run.wait_until(lambda: len(landed()) == 40, "the first ones have landed")
        pair.stop_listening()
        before = tokens()
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'fencepost%'"
        pair.sql(others)
        flow.produce(range(40, 60))
        run.wait_until(lambda: len(landed()) == 60, "it went on under another token")
        assert tokens() != before
        pair.fail_over()
        assert len(landed()) == 40  # the standby has forgotten the others, and the token
        assert tokens() == before
        flow.produce(range(60, 70))
        run.wait_until(lambda: len(landed()) == 70, "it went on behind the failover")
    assert run.failure is None
    assert landed() == Counter(range(70))
