"""Another user of the machine beside a running pipeline: its ports give nothing away."""

from __future__ import annotations

from uuid import uuid4

import pytest
from psycopg.conninfo import make_conninfo

from spark import stranger
from spark.drivers import spark_here
from spark.flows import Flow


def given_away(flow: Flow, secret: str, **settings: str) -> bytes:
    """What a stranger gets of a pipeline that has carried something and waits for more."""
    role = f"{flow.name}_role"
    flow.sql(f"CREATE ROLE {role} SUPERUSER LOGIN PASSWORD '{secret}'")
    flow.produce(range(100))
    dsn = make_conninfo(flow.stack.dsn, user=role, password=secret)
    with flow.running(options={"dsn": dsn}, spark=settings) as run:
        run.wait_until(lambda: len(flow.landed()) == 100, "everything has landed")
        ports = stranger.listening([spark_here().pid])
        assert ports
        return b"".join(map(stranger.broadcasts, ports))


@pytest.mark.proof
def test_a_stranger_gets_no_broadcast_and_none_holds_the_password(flow: Flow) -> None:
    secret = f"canary-{uuid4().hex}"
    assert given_away(flow, secret) == b""


@pytest.mark.proof
def test_without_a_login_a_stranger_reads_broadcasts_but_no_password(flow: Flow) -> None:
    secret = f"canary-{uuid4().hex}"
    found = given_away(flow, secret, **{"spark.authenticate": "false"})
    assert flow.name.encode() in found  # what was sent to the tasks is there for everybody
    assert secret.encode() not in found
