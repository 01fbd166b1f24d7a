"""What a trial counts in its sink, by id; of a run that had to stop, what it had delivered."""

from __future__ import annotations

import pytest

from fencepost.guarantee import Anomaly
from fencepost.lab.pipelines.flow import Flow


class Landed(Flow):
    """A flow whose sink holds these."""

    def __init__(self, sent: int, landed: list[int]) -> None:
        self.sent = list(range(sent))
        self._landed = landed

    def landed(self) -> list[int]:
        return self._landed


@pytest.mark.parametrize(
    ("landed", "found"),
    [
        ([0, 1, 2], {}),  # it stopped at once
        ([0, 1, 2, 4], {}),  # it went on in another partition first
        ([0, 1], {Anomaly.LOST_BEFORE_SINK: 1}),
        ([0, 1, 2, 2], {Anomaly.DOUBLED_IN_SINK: 1}),
        ([0, 1, 2, 4, 4], {Anomaly.DOUBLED_IN_SINK: 1}),
        ([0, 1, 2, 9], {Anomaly.PHANTOM: 1}),
    ],
)
def test_what_a_run_delivered_before_it_stopped_is_there_once(landed: list[int], found: dict[Anomaly, int]) -> None:
    result, anomalies = Landed(6, landed).counted([0, 1, 2], stopped="RecordsGone")
    assert (anomalies, result.landed) == (found, len(landed))


def test_of_a_run_that_went_on_everything_has_to_be_there() -> None:
    _, anomalies = Landed(4, [0, 1, 1]).counted([0], stopped="")
    assert anomalies == {Anomaly.LOST_BEFORE_SINK: 2, Anomaly.DOUBLED_IN_SINK: 1}
