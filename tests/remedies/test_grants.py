"""Remedies that are rights of a role, followed as they stand, whatever the names are; then the role can work."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consuming.relays import Relay
from fencepost.admin.plan import plan_pipeline
from fencepost.admin.prepare import prepare
from fencepost.cli.init import init
from fencepost.errors import Refused, Unreachable, Usage
from fencepost.local import Stack
from fencepost.model import Batch, Step
from fencepost.sinks.postgres.stage import require_right
from fencepost.spec import load
from remedies.following import type_in

ODD = "odd \"{}\" '%s' name"


@contextmanager
def _owner(stack: Stack) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with closing(psycopg.connect(stack.dsn, autocommit=True)) as connection:
        yield connection


def test_the_right_to_make_a_stage_is_granted_by_the_statement_whatever_the_names(stack: Stack) -> None:
    name, secret = ODD.format(uuid4().hex[:8]), uuid4().hex
    own = sql.Identifier(name)
    with _owner(stack) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(own, sql.Literal(secret)))
        owner.execute(sql.SQL("CREATE SCHEMA {}").format(own))
        try:
            with closing(psycopg.connect(make_conninfo(stack.dsn, user=name, password=secret))) as role:
                with pytest.raises(Usage) as refused:
                    require_right(role, name, "Sort")
                role.rollback()
                owner.execute(refused.value.remedy.encode())
                require_right(role, name, "Sort")
        finally:
            owner.execute(sql.SQL("DROP SCHEMA {} CASCADE; DROP OWNED BY {}; DROP ROLE {}").format(own, own, own))


def test_a_role_is_made_and_granted_what_it_needs_by_what_is_said_and_runs(stack: Stack, tmp_path: Path) -> None:
    relay, secret = Relay(stack, tmp_path), uuid4().hex
    relay.produce(range(20))
    name, ledger = ODD.format(relay.name), {"ledger_schema": f"{relay.name}_own"}
    with pytest.raises(Usage, match="there is no role") as refused:
        prepare(load(relay.declare(options=ledger)), name)
    statement = refused.value.remedy.removeprefix("create it: ").replace("...", f"'{secret}'")
    own = sql.Identifier(name)
    with _owner(stack) as owner:
        owner.execute(statement.encode())
        try:
            with pytest.raises(Usage) as asked:
                init()
            (command,) = re.findall(r"then in it `([^`]*)NAME`", asked.value.remedy)
            relay.declare(options=ledger).rename(tmp_path / "fencepost.yml")
            type_in(command + shlex.quote(name), tmp_path)
            dsn = make_conninfo(stack.dsn, user=name, password=secret)
            relay.run(options={**ledger, "dsn": dsn})
        finally:
            owner.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(own, own))
    assert Counter(relay.landed()) == Counter(range(20))


@pytest.mark.proof
def test_a_role_that_may_only_read_is_told_what_to_set_and_writes_then(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path)
    relay.produce(range(20))
    relay.run()
    relay.produce(range(20, 40))
    with pytest.raises(Unreachable, match="default_transaction_read_only") as refused:
        relay.run(options={"dsn": make_conninfo(stack.dsn, options="-c default_transaction_read_only=on")})
    assert "or set it to off" in refused.value.remedy
    relay.run(options={"dsn": make_conninfo(stack.dsn, options="-c default_transaction_read_only=off")})
    assert Counter(relay.landed()) == Counter(range(40))


@contextmanager
def _role(stack: Stack) -> Iterator[tuple[str, str]]:
    """A role of its own, and the DSN with which it connects."""
    name, secret = f"role_{uuid4().hex[:8]}", uuid4().hex
    own = sql.Identifier(name)
    with _owner(stack) as owner:
        owner.execute(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(own, sql.Literal(secret)))
        try:
            yield name, make_conninfo(stack.dsn, user=name, password=secret)
        finally:
            owner.execute(sql.SQL("DROP OWNED BY {}; DROP ROLE {}").format(own, own))


def test_the_right_to_make_temporary_tables_is_granted_by_the_statement(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, partitions=1)
    relay.produce(range(20))
    options = {"mode": "upsert", "key": ["id"], "ledger_schema": f"{relay.name}_own"}
    with _role(stack) as (role, dsn), _owner(stack) as owner:
        database = sql.Identifier(owner.info.dbname)
        prepare(load(relay.declare(options=options)), role)
        owner.execute(sql.SQL("REVOKE TEMPORARY ON DATABASE {} FROM PUBLIC, {}").format(database, sql.Identifier(role)))
        try:
            with pytest.raises(Usage, match="may not create one") as planned:
                plan_pipeline(load(relay.declare(options={**options, "dsn": dsn})), offline=False)
            with pytest.raises(Usage, match="may not create one") as refused:
                relay.run(options={**options, "dsn": dsn})
            assert planned.value.remedy == refused.value.remedy
            owner.execute(refused.value.remedy.encode())
            relay.run(options={**options, "dsn": dsn})
        finally:
            owner.execute(sql.SQL("GRANT TEMPORARY ON DATABASE {} TO PUBLIC").format(database))
    assert Counter(relay.landed()) == Counter(range(20))


def test_a_right_that_was_lost_stops_the_run_and_is_granted_again_by_the_command(stack: Stack, tmp_path: Path) -> None:
    relay = Relay(stack, tmp_path, partitions=1)
    relay.produce(range(150))  # two batches
    options = {"ledger_schema": f"{relay.name}_own"}
    with _role(stack) as (role, dsn):
        prepare(load(relay.declare(options=options)), role)

        def revoke(step: Step, batch: Batch[Any]) -> None:
            if step is Step.STARTED and batch.only_span()[1].start > 0:
                relay.sql(f"REVOKE INSERT ON {relay.name} FROM {role}")

        with pytest.raises(Refused, match="permission denied") as refused:
            relay.run(revoke, options={**options, "dsn": dsn})
        assert len(relay.landed()) == 100
        (command,) = re.findall(r"`([^`]*)NAME`", refused.value.remedy)
        relay.declare(options=options).rename(tmp_path / "fencepost.yml")
        type_in(command + role, tmp_path)
        relay.run(options={**options, "dsn": dsn})
    assert Counter(relay.landed()) == Counter(range(150))
