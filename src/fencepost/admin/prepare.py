"""The target of a pipeline, made ready by its owner before the first run."""

from __future__ import annotations

from fencepost.admin.plan import trial
from fencepost.rules.sinks import require_key
from fencepost.sinks.kind import CanBePrepared, Prepared, require_able
from fencepost.spec import PipelineSpec


def prepare(spec: PipelineSpec, role: str | None) -> Prepared:
    """Make what a run would make, and give the role what a run needs. May be repeated, after a crash too.

    Raises Usage where the target that is there does not fit, Refused where the connection's own role may not do it.
    """
    kind = require_able(spec.sink.kind, CanBePrepared, spec.sink.format, "be prepared (init --db)")
    seen = trial(spec)
    require_key(spec.sink.options.merge, seen.columns.names, seen.provenance)
    return kind.prepare_for(spec.job, seen.columns, seen.wide_node is not None, role)
