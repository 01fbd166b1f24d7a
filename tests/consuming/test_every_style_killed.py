"""Every commit style, killed with -9 at every step: lost and doubled by id, and what weaker ways give away there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from consuming.groups import Group
from fencepost.engines.python.read_ahead import MOST_AHEAD
from fencepost.lab.crash import visits

EVENTS, BATCH = 60, 10
# a dead member is missed soon
QUICK = {"session.timeout.ms": "2000", "heartbeat.interval.ms": "300", "auto.commit.interval.ms": "100"}
proof = pytest.mark.proof

STEPS: dict[str, dict[str, Any]] = {
    "after reading": {"dies": ["before", 20]},
    "half way through a batch": {"dies": ["after", 24]},
    "after processing": {"crash": ["written", 2]},
    "after committing": {"crash": ["advanced", 2]},
}
EXACT = {  # lost and doubled, at each of the steps
    ("at-most-once", "sync", "batch"): [(10, 0), (5, 0), (0, 0), (10, 0)],
    ("at-most-once", "sync", "record"): [(1, 0), (0, 0), (0, 0), (1, 0)],
    ("at-least-once", "sync", "batch"): [(0, 0), (0, 5), (0, 10), (0, 0)],
    ("at-least-once", "sync", "record"): [(0, 0), (0, 1), (0, 1), (0, 0)],
}


def carried(group: Group, tmp_path: Path, step: str, **work: Any) -> tuple[int, int]:
    """Killed there, and run again until everything is read: lost and doubled."""
    group.produce(range(EVENTS))
    witness = tmp_path / "witness"
    fault = dict(STEPS[step])
    if "crash" in fault:
        where, number = fault["crash"]
        fault["crash"] = [where, "kill", str(witness), number]
    work = {"settings": QUICK, "batch": BATCH, **work}
    with group.process(**work, **fault) as first:
        assert first.ended() == -9, first.log.read_text()
    assert "crash" not in fault or visits(witness)[-1].acted
    with group.process(**work) as second:
        assert second.ended() == 0, second.log.read_text()
    return group.lost(EVENTS), group.doubled()


def exact_costs() -> Iterator[Any]:
    """Every style at every step; the two that tell most are not left out of the short run."""
    telling = {
        ("at-most-once", "sync", "record", "after committing"),
        ("at-least-once", "sync", "batch", "after processing"),
    }
    for style, costs in EXACT.items():
        for step, cost in zip(STEPS, costs, strict=True):
            marks = () if (*style, step) in telling else proof
            yield pytest.param(style, step, cost, marks=marks, id="-".join((*style, step)))


@pytest.mark.parametrize(("style", "step", "cost"), list(exact_costs()))
def test_with_synchronous_commits_what_a_kill_costs_is_known_to_the_event(
    behind_proxies: Group, tmp_path: Path, style: tuple[str, str, str], step: str, cost: tuple[int, int]
) -> None:
    guarantee, commit, per = style
    assert carried(behind_proxies, tmp_path, step, guarantee=guarantee, commit=commit, per=per) == cost


@pytest.mark.parametrize(
    "step", [pytest.param(each, marks=() if each == "half way through a batch" else proof) for each in STEPS]
)
@pytest.mark.parametrize("per", ["batch", pytest.param("record", marks=proof)])
def test_at_most_once_with_asynchronous_commits_loses_what_was_read_ahead_and_doubles_nothing(
    behind_proxies: Group, tmp_path: Path, per: str, step: str
) -> None:
    lost, doubled = carried(behind_proxies, tmp_path, step, guarantee="at-most-once", commit="async", per=per)
    size = BATCH if per == "batch" else 1
    assert doubled == 0
    assert lost <= (MOST_AHEAD + 1) * size


@proof
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("style", ["auto-batch", "async-batch", "async-record", "async-0.05", "sync-0.05"])
def test_at_least_once_loses_nothing_however_seldom_it_commits(
    behind_proxies: Group, tmp_path: Path, style: str, step: str
) -> None:
    commit, per = style.split("-")
    lost, _ = carried(behind_proxies, tmp_path, step, guarantee="at-least-once", commit=commit, per=per)
    assert lost == 0


def test_control_the_usual_auto_commit_loses_what_it_had_not_processed(behind_proxies: Group) -> None:
    group = behind_proxies
    work: dict[str, Any] = {"module": "consuming.plain_process", "settings": QUICK, "slowly": 0.05}
    group.produce(range(EVENTS))
    with group.process(**work, dies=["after", 24]) as first:
        assert first.ended() == -9, first.log.read_text()
    with group.process(**work) as second:
        assert second.ended() == 0, second.log.read_text()
    assert (group.lost(EVENTS), group.doubled()) == (5, 0)


def test_auto_commit_here_repeats_what_it_had_not_committed(behind_proxies: Group, tmp_path: Path) -> None:
    work = {"guarantee": "at-least-once", "commit": "auto", "slowly": 0.05}
    lost, doubled = carried(behind_proxies, tmp_path, "half way through a batch", **work)
    assert lost == 0
    assert 5 <= doubled <= 15  # the half batch, and the one before it if its commit was not answered yet
