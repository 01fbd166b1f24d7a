"""A pipeline's scenario, played once: guarded, or as its control. Every id that was sent is looked for in the sink."""

from __future__ import annotations

from collections import Counter

from fencepost.audit.audit import audit
from fencepost.audit.compare import Comparison
from fencepost.audit.findings import DOUBLED, LOST
from fencepost.errors import FencepostError, Unreachable
from fencepost.guarantee import Anomaly
from fencepost.lab.judge import Trial
from fencepost.lab.pipelines.at_a_step import play_at_a_step
from fencepost.lab.pipelines.between_runs import play_between_runs
from fencepost.lab.pipelines.native_runs import play_native
from fencepost.lab.pipelines.scene import Scene
from fencepost.lab.scenario import Recipe

SHOWN = 20  # ids that a report names


def trial_of(scene: Scene) -> Trial:
    """What was counted; trouble on the way is a result too."""
    result, anomalies, trouble = Comparison(0, 0), Counter[Anomaly](), ""
    try:
        _play(scene)
        result, anomalies = scene.flow.counted(scene.before, stopped=scene.stopped)
        anomalies += _bad(scene)
        if scene.weaker is None and not scene.stopped:
            anomalies |= _audited(scene)
    except Exception as error:  # noqa: BLE001 (whatever raises here, nothing is decided)
        trouble = str(error) if isinstance(error, FencepostError) else f"{type(error).__name__}: {error}"
        scene.tell(f"not brought to an end: {trouble}", "trouble")
    lost, doubled = (_ids(result, codes) for codes in (LOST, DOUBLED))
    if not trouble:
        told = f"{result.landed} landed of {len(scene.flow.sent)}: {_said(anomalies)}"
        counts = {"landed": result.landed, "lost_count": result.lost, "doubled_count": result.duplicated}
        scene.tell(told, "counted", "sink", lost=lost, doubled=doubled, **counts)
    return Trial(
        scene.setting,
        scene.witnessed,
        scene.in_flight,
        len(scene.flow.sent) + scene.flow.bad,
        result.landed,
        anomalies,
        scene.witness,
        scene.stopped,
        trouble,
        lost,
        doubled,
    )


def _play(scene: Scene) -> None:
    if scene.recipe is Recipe.NATIVE:
        play_native(scene)
    elif scene.inject.do.at_a_step:
        play_at_a_step(scene)
    else:
        play_between_runs(scene)


def _bad(scene: Scene) -> Counter[Anomaly]:
    """Records that cannot be read, and are not among the dead letters either."""
    return Counter({Anomaly.LOST_BEFORE_SINK: max(scene.flow.bad - scene.dead(), 0)})


def _audited(scene: Scene) -> Counter[Anomaly]:
    """What the product's own audit finds besides: gaps and overlaps of its commits, order, provenance."""
    found = audit(scene.spec)
    if why := found.why_undecided:
        raise Unreachable(f"the audit could not decide: {why}")
    scene.tell(f"fencepost audit: {found.verdict}", "counted", "sink")
    return Counter(found.totals)


def _ids(result: Comparison, codes: tuple[Anomaly, ...]) -> tuple[int, ...]:
    return tuple(sorted(int(str(one.id)) for one in result.findings if one.code in codes))[:SHOWN]


def _said(anomalies: Counter[Anomaly]) -> str:
    found = [f"{code} {count}" for code, count in sorted(anomalies.items()) if count]
    return ", ".join(found) or "nothing lost, nothing doubled"
