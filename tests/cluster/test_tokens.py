"""OAUTHBEARER: the whole pipeline with tokens by OAuth's client credentials, in either client's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from cluster.secured import USER, SecuredBroker, secured_broker
from cluster.secured_flow import SecuredFlow, secured_flow
from cluster.tokens import TokenPlace, token_place
from fencepost.local import Stack

Command = Callable[..., Any]


@pytest.fixture(scope="module")
def broker() -> Iterator[SecuredBroker]:
    with secured_broker(f"canary-of-kafka-{uuid4().hex}") as broker:
        yield broker


@pytest.fixture
def tokens(broker: SecuredBroker) -> Iterator[TokenPlace]:
    certificates, secret = broker.certificates, f"canary-of-the-client-{uuid4().hex}"
    with token_place(certificates.tokens, certificates.broker, USER, secret) as place:
        yield place


@pytest.fixture
def flow(broker: SecuredBroker, stack: Stack, tmp_path: Path) -> Iterator[SecuredFlow]:
    with secured_flow(broker, stack, tmp_path) as flow:
        flow.allow_reading()
        flow.allow_auditing()
        yield flow


def _runs(flow: SecuredFlow, tokens: TokenPlace, elsewhere: Command, words: str, **parts: Any) -> None:
    kafka = flow.broker.with_tokens_in_java(tokens) if words == "java" else flow.broker.with_tokens(tokens)
    spec = str(flow.declare(kafka, flow.stack.dsn, **parts))
    flow.produce(range(100))
    said = []
    for command in ("plan", "run --once", "status", "audit"):
        ended = elsewhere(*command.split(), "--spec", spec, "--format", "json")
        assert ended.code == 0, ended
        said.append(ended.out + ended.err)
    assert flow.landed() == list(range(100))
    assert tokens.given
    assert not tokens.refused
    assert [secret for secret in (tokens.secret, *tokens.given) if secret in "".join(said)] == []


@pytest.mark.parametrize("words", ["java", "librdkafka"])
def test_the_whole_pipeline_runs_with_tokens(
    flow: SecuredFlow, tokens: TokenPlace, elsewhere: Command, words: str
) -> None:
    _runs(flow, tokens, elsewhere, words)


@pytest.mark.parametrize("words", ["java", pytest.param("librdkafka", marks=pytest.mark.proof)])
def test_the_whole_pipeline_runs_with_tokens_on_spark(
    flow: SecuredFlow, tokens: TokenPlace, elsewhere: Command, words: str
) -> None:
    _runs(flow, tokens, elsewhere, words, engine="spark", spark={"spark.master": "local[2]"})


def test_a_wrong_secret_is_said_in_one_line(flow: SecuredFlow, tokens: TokenPlace, elsewhere: Command) -> None:
    wrong = f"{tokens.secret}-wrong"
    refused = elsewhere("run", "--once", "--spec", str(flow.declare(flow.broker.with_tokens(tokens, wrong))))
    assert refused.code == 3
    assert "does not let us in" in refused.complaint
    assert tokens.secret not in refused.complaint
    assert tokens.refused
    assert not tokens.given
