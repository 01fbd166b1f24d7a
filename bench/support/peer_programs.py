"""The same work, a topic of JSON into a table, as the documentation of each shows it; each a program for `python -c`.

They are given one JSON object: kafka, topic, name, table, folder, and dsn or its parts.
"""

from __future__ import annotations

_GIVEN = "import json, sys\ngiven = json.loads(sys.argv[1])\nkafka = given['kafka']['bootstrap.servers']\n"

_INSERT = "insert = f\"INSERT INTO {given['table']} (id, body) VALUES (%s, %s)\"\n"

FENCEPOST = """
import json, sys
from fencepost.run.pipeline import Pipeline
Pipeline(json.loads(sys.argv[1])["spec"]).run()
"""

PLAIN = f"""{_GIVEN}{_INSERT}
import psycopg
from confluent_kafka import Consumer
consumer = Consumer({{"bootstrap.servers": kafka, "group.id": given["name"], "auto.offset.reset": "earliest",
                      "enable.auto.commit": False}})
consumer.subscribe([given["topic"]])
with psycopg.connect(given["dsn"]) as database:
    while True:
        events = [json.loads(one.value()) for one in consumer.consume(500, timeout=0.1) if one.error() is None]
        if events:
            with database.cursor() as cursor:
                cursor.executemany(insert, [(event["id"], event["body"]) for event in events])
            database.commit()
            consumer.commit(asynchronous=False)
"""

QUIXSTREAMS = f"""{_GIVEN}
from quixstreams import Application
from quixstreams.sinks.community.postgresql import PostgreSQLSink
app = Application(broker_address=kafka, consumer_group=given["name"], auto_offset_reset="earliest")
sink = PostgreSQLSink(**given["database"], table_name=given["table"], include_metadata=False)
app.dataframe(app.topic(given["topic"], value_deserializer="json")).sink(sink)
app.run()
"""

BYTEWAX = f"""{_GIVEN}{_INSERT}
from datetime import timedelta
from pathlib import Path
import psycopg
import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSource
from bytewax.dataflow import Dataflow
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.recovery import RecoveryConfig, init_db_dir
from bytewax.run import cli_main

class Rows(StatelessSinkPartition):
    def __init__(self):
        self._database = psycopg.connect(given["dsn"])
    def write_batch(self, items):
        with self._database.cursor() as cursor:
            cursor.executemany(insert, [(event["id"], event["body"]) for event in items])
        self._database.commit()

class Table(DynamicSink):
    def build(self, step_id, worker_index, worker_count):
        return Rows()

folder = Path(given["folder"])
if not folder.exists():
    folder.mkdir()
    init_db_dir(folder, 1)
flow = Dataflow("peer")
source = KafkaSource([kafka], [given["topic"]], tail=True)
op.output("out", op.map("parse", op.input("in", flow, source), lambda one: json.loads(one.value)), Table())
cli_main(flow, epoch_interval=timedelta(seconds=1), recovery_config=RecoveryConfig(str(folder)))
"""

FAUST = f"""{_GIVEN}{_INSERT}
import faust, psycopg
app = faust.App(given["name"], broker=f"kafka://{{kafka.replace(',', ';kafka://')}}", store="memory://",
                datadir=given["folder"], web_enabled=False, topic_disable_leader=True)
topic = app.topic(given["topic"], value_type=dict, value_serializer="json")

@app.agent(topic)
async def store(events):
    database = await psycopg.AsyncConnection.connect(given["dsn"])
    async for many in events.take(500, within=0.1):
        async with database.cursor() as cursor:
            await cursor.executemany(insert, [(event["id"], event["body"]) for event in many])
        await database.commit()

sys.argv[1:] = ["worker", "-l", "error"]
app.main()
"""

# with the module that each needs
PROGRAMS = {
    "fencepost python": (FENCEPOST, "psycopg"),
    "fencepost spark": (FENCEPOST, "pyspark"),
    "plain loop": (PLAIN, "psycopg"),
    "quixstreams": (QUIXSTREAMS, "quixstreams"),
    "bytewax": (BYTEWAX, "bytewax"),
    "faust": (FAUST, "faust"),
}
