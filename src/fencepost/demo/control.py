"""Chapter three, the control: one kill against the usual recipe."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from fencepost.audit.compare import Comparison, compare_sink
from fencepost.demo.naive import Recipe
from fencepost.demo.pipeline import TOPIC, ids_in_table, ids_in_topic
from fencepost.demo.processes import Program, program
from fencepost.demo.step_log import StepLog
from fencepost.local import Stack

TABLE = "orders_naive"


def kill_the_usual_recipe(stack: Stack, events: int, folder: Path, tell: StepLog) -> Comparison:
    """foreachBatch with Spark's JDBC append, killed once in the middle of a batch, restarted from its checkpoint."""
    tell.chapter("The same kill, once, against foreachBatch with Spark's JDBC append and its own checkpoint")
    records = events // 4
    with closing(psycopg.connect(stack.dsn, autocommit=True)) as database:
        database.execute("CREATE TABLE orders_naive (id bigint)")

        def in_the_middle() -> bool:
            """Some of a batch's partitions are committed, and others not yet."""
            (count,) = database.execute("SELECT pg_catalog.count(*) FROM orders_naive").fetchone() or (0,)
            return bool(count % records)

        with _recipe(stack, records, folder) as running:
            hit = running.wait_for(in_the_middle)
            running.kill_tree()
    tell.step("killed with -9 in the middle of a batch" if hit else "it ended before it could be killed")
    with _recipe(stack, records, folder) as running:
        running.finish()
    result = compare_sink(ids_in_topic(stack), ids_in_table(stack, TABLE))
    tell.step(f"restarted from its checkpoint, drained: lost {result.lost:,}, doubled {result.duplicated:,}")
    return result


def _recipe(stack: Stack, records: int, folder: Path) -> AbstractContextManager[Program]:
    where = conninfo_to_dict(stack.dsn)
    url = f"jdbc:postgresql://{where['host']}:{where['port']}/{where['dbname']}?sslmode=disable"
    checkpoint = (folder / "checkpoint").as_uri()
    recipe = Recipe(stack.bootstrap_servers, TOPIC, url, str(where["user"]), TABLE, checkpoint, records)
    environment = {"PGPASSFILE": str(where["passfile"]), "SPARK_LOCAL_IP": "127.0.0.1"}
    return program("fencepost.demo.naive", [json.dumps(asdict(recipe))], folder / "naive.log", environment)
