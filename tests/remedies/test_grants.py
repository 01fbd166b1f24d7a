"""Remedies that are rights of a role, followed as they stand, whatever the names are; then the role can work."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from consuming.relays import Relay
from fencepost.cli.init import init
from fencepost.errors import Unreachable, Usage
from fencepost.local import Stack
from fencepost.preparing import prepare
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
    statement = refused.value.remedy.removeprefix("make it: ").replace("...", f"'{secret}'")
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
