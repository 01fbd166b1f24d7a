"""OAUTHBEARER: the whole pipeline with tokens by OAuth's client credentials, in either client's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.secured import SecuredBroker
from cluster.secured_flow import SecuredFlow, secured_flow
from cluster.tokens import TokenPlace
from fencepost.local import Stack

Command = Callable[..., Any]


@pytest.fixture
def flow(broker: SecuredBroker, stack: Stack, tmp_path: Path) -> Iterator[SecuredFlow]:
    with secured_flow(broker, stack, tmp_path) as flow:
        flow.allow_reading()
        flow.allow_auditing()
        yield flow


def _assert_it_runs(flow: SecuredFlow, tokens: TokenPlace, elsewhere: Command, words: str, **parts: Any) -> None:
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


@pytest.mark.parametrize("words", [pytest.param("java", marks=pytest.mark.proof), "librdkafka"])
def test_the_whole_pipeline_runs_with_tokens(
    flow: SecuredFlow, tokens: TokenPlace, elsewhere: Command, words: str
) -> None:
    _assert_it_runs(flow, tokens, elsewhere, words)


@pytest.mark.proof
@pytest.mark.parametrize("words", ["java", "librdkafka"])
def test_the_whole_pipeline_runs_with_tokens_on_spark(
    flow: SecuredFlow, tokens: TokenPlace, elsewhere: Command, words: str
) -> None:
    _assert_it_runs(flow, tokens, elsewhere, words, engine="spark", spark={"spark.master": "local[2]"})


def test_a_wrong_secret_is_said_in_one_line(flow: SecuredFlow, tokens: TokenPlace, elsewhere: Command) -> None:
    wrong = f"{tokens.secret}-wrong"
    refused = elsewhere("run", "--once", "--spec", str(flow.declare(flow.broker.with_tokens(tokens, wrong))))
    assert refused.code == 3
    assert "refused authentication" in refused.complaint
    assert tokens.secret not in refused.complaint
    assert tokens.refused
    assert not tokens.given
