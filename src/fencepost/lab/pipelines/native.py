"""What people write today into a sink of this kind, with Spark's own checkpoint: the control of the demo and the lab.

`python -m fencepost.lab.pipelines.native FILE CHECKPOINT RECORDS` drains the pipeline's topic so, RECORDS a batch.
"""

from __future__ import annotations

import sys
from pathlib import Path

from fencepost.engines.spark.session import session_for
from fencepost.sinks.demo import CanBeShown
from fencepost.sinks.kind import require_able
from fencepost.spec import load


def run(file: Path, checkpoint: str, records: str) -> None:
    spec = load(file)
    demo = require_able(spec.sink.kind, CanBeShown, spec.sink.format, "be shown").demo
    options = {
        "kafka.bootstrap.servers": spec.kafka["bootstrap.servers"],
        "subscribe": ",".join(spec.source.origins),
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": records,
    }
    with session_for(spec) as spark:
        source = spark.readStream.format("kafka").options(**options).load().selectExpr("cast(value AS string) AS value")
        orders = source.selectExpr("cast(get_json_object(value, '$.id') AS long) AS id", "value")
        demo.drain(spec.job, orders, checkpoint).awaitTermination()


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:4])
