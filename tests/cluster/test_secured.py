"""Secured clusters: the whole pipeline over SASL_SSL with few rights, each wrong credential, and no secret anywhere."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen
from uuid import uuid4

import psutil
import pytest

from cluster.secured import SecuredBroker
from cluster.secured_flow import SecuredFlow, secured_flow
from cluster.tokens import TokenPlace
from fencepost.kafka.topic_reader import read_committed
from fencepost.local import Stack, ports
from spark.drivers import run_command

Command = Callable[..., Any]


@pytest.fixture
def flow(broker: SecuredBroker, stack: Stack, tmp_path: Path) -> Iterator[SecuredFlow]:
    with secured_flow(broker, stack, tmp_path) as flow:
        yield flow


@pytest.fixture
def guarded(flow: SecuredFlow, elsewhere: Command) -> SecuredFlow:
    """The owner of the database has run the pipeline once, so that there are tables; then come the rights."""
    flow.allow_reading()
    made = elsewhere("run", "--once", "--spec", str(flow.declare(flow.broker.as_java(), flow.stack.dsn)))
    assert made.code == 0, made
    flow.allow_writing()
    return flow


def shown(secrets: tuple[str, ...], *texts: str) -> list[str]:
    """Those of the secrets that are in one of the texts."""
    return [secret for secret in secrets if any(secret in text for text in texts)]


def properties(folder: Path, kafka: dict[str, str]) -> Path:
    file = folder / "client.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in kafka.items()))
    return file


def test_the_whole_pipeline_runs_over_sasl_ssl_with_few_rights_and_shows_no_secret(
    guarded: SecuredFlow, elsewhere: Command
) -> None:
    guarded.allow_auditing()
    guarded.produce(range(100))
    said = []
    for words in (["plan"], ["run", "--once"], ["status"], ["audit"]):
        ended = elsewhere(*words, "--spec", str(guarded.declare(guarded.broker.as_java())), "--format", "json")
        assert ended.code == 0, ended
        said += [ended.out, ended.err]
    assert guarded.landed() == list(range(100))
    assert shown(guarded.secrets, *said) == []


def test_librdkafkas_words_for_the_same_do_as_well(guarded: SecuredFlow, elsewhere: Command, tmp_path: Path) -> None:
    kafka = guarded.broker.as_librdkafka()
    guarded.produce(range(30))
    assert elsewhere("run", "--once", "--spec", str(guarded.declare(kafka))).code == 0
    assert guarded.landed() == list(range(30))
    described = elsewhere("topic", "describe", guarded.name, "--command-config", str(properties(tmp_path, kafka)))
    assert described.code == 0, described


@pytest.mark.proof
def test_an_upsert_with_dead_letters_needs_few_rights_more(flow: SecuredFlow, elsewhere: Command) -> None:
    parts: dict[str, Any] = {"options": {"mode": "upsert", "key": ["id"]}, "on_error": "dead_letter"}
    flow.allow_reading()
    by_owner = flow.declare(flow.broker.as_java(), flow.stack.dsn, **parts)
    assert elsewhere("run", "--once", "--spec", str(by_owner)).code == 0
    flow.allow_writing()
    flow.allow_merging()
    flow.produce([*range(10), *range(10)])
    flow.produce([10], "not JSON")
    ended = elsewhere("run", "--once", "--spec", str(flow.declare(flow.broker.as_java(), **parts)))
    assert ended.code == 0, ended
    assert flow.landed() == list(range(10))
    assert len(flow.sql(f"SELECT 1 FROM public.{flow.name}_dead")) == 1


WRONG: dict[str, tuple[Callable[[SecuredBroker], dict[str, str]], str]] = {
    "authority": (
        lambda broker: broker.as_librdkafka(ssl_ca_location=str(broker.certificates.stranger)),
        "is not trusted: unable to get local issuer certificate: set ssl.truststore.location",
    ),
    "host name": (
        lambda broker: broker.as_librdkafka(bootstrap_servers=broker.misnamed_servers),
        "is for elsewhere.example, not for 127.0.0.1: connect to a name in the certificate",
    ),
    "password": (
        lambda broker: broker.as_librdkafka(sasl_password=f"{broker.password}-wrong"),
        "invalid credentials with SASL mechanism SCRAM-SHA-512): check security.protocol, sasl.mechanism, the user",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_said_at_once_in_one_line(flow: SecuredFlow, elsewhere: Command, wrong: str) -> None:
    settings, complaint = WRONG[wrong]
    refused = elsewhere("run", "--once", "--spec", str(flow.declare(settings(flow.broker))))
    assert refused.code == 3
    assert complaint in refused.complaint
    assert shown(flow.secrets, refused.complaint) == []


@pytest.mark.parametrize("command", ["produce --topic {} --count 1", "consume --topic {} --group {} --once"])
def test_every_command_ends_where_the_password_is_wrong(
    flow: SecuredFlow, elsewhere: Command, command: str, tmp_path: Path
) -> None:
    file = properties(tmp_path, flow.broker.as_librdkafka(sasl_password=f"{flow.broker.password}-wrong"))
    refused = elsewhere(*command.replace("{}", flow.name).split(), "--command-config", str(file))
    assert refused.code == 3, refused
    assert shown(flow.secrets, refused.out, refused.err) == []


def test_an_audit_that_is_not_let_in_says_so_instead_of_nothing(flow: SecuredFlow, elsewhere: Command) -> None:
    kafka = flow.broker.as_librdkafka(sasl_password=f"{flow.broker.password}-wrong")
    refused = elsewhere("audit", "--spec", str(flow.declare(kafka)))
    assert refused.code == 3
    assert "refused authentication" in refused.complaint


def test_a_user_without_the_right_to_the_topic_is_told_so(flow: SecuredFlow, elsewhere: Command) -> None:
    refused = elsewhere("run", "--once", "--spec", str(flow.declare(flow.broker.as_java())))
    assert refused.code == 2
    assert flow.name in refused.complaint


@pytest.mark.proof
def test_from_topic_to_topic_the_user_needs_a_transactional_id_besides(flow: SecuredFlow, elsewhere: Command) -> None:
    flow.allow_reading()
    flow.allow_sending()
    flow.produce(range(20))
    sink = {"format": "kafka", "options": {"topic": flow.target}}
    spec = str(flow.declare(flow.broker.as_java(), source={"topic": flow.name}, sink=sink))
    for words in (["plan"], ["run", "--once"], ["status"]):
        ended = elsewhere(*words, "--spec", spec, "--format", "json")
        assert ended.code == 0, ended
        assert shown(flow.secrets, ended.out, ended.err) == []
    assert len(list(read_committed({"bootstrap.servers": flow.broker.administrator().servers}, flow.target))) == 20


@pytest.mark.proof
def test_a_producer_that_can_be_gone_on_with_needs_its_group_and_its_transactional_id(
    flow: SecuredFlow, elsewhere: Command, tmp_path: Path
) -> None:
    flow.allow_resuming("numbers")
    file = properties(tmp_path, flow.broker.as_java())
    words = f"produce --topic {flow.name} --guarantee exactly-once --count 10 --name numbers"
    for _ in range(2):
        ended = elsewhere(*words.split(), "--command-config", str(file))
        assert ended.code == 0, ended
    assert len(list(read_committed({"bootstrap.servers": flow.broker.administrator().servers}, flow.name))) == 10


PAGES = (
    "environment/", "SQL/", "StreamingQuery/", "jobs/", "stages/", "executors/",
    "api/v1/applications/{}/environment", "api/v1/applications/{}/sql", "api/v1/applications/{}/jobs",
)  # fmt: skip


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("by", ["password", "token"])
def test_on_spark_neither_argv_nor_environment_nor_page_nor_log_shows_a_secret(
    guarded: SecuredFlow, tokens: TokenPlace, tmp_path: Path, by: str
) -> None:
    guarded.produce(range(100))
    port, events = ports.choose(None, ()), tmp_path / "events"
    events.mkdir()
    spark = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "true",
        "spark.ui.port": str(port),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",  # to be searched
        "spark.eventLog.dir": events.as_uri(),
        "spark.log.level": "DEBUG",
        "spark.hadoop.fs.s3a.secret.key": (own := f"canary-of-spark-{uuid4().hex}"),
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={talkative(tmp_path)}",
    }
    kafka = guarded.broker.as_librdkafka() if by == "password" else guarded.broker.with_tokens(tokens)
    spec = guarded.declare(kafka, engine="spark", spark=spark)
    with run_command(spec, "--format", "json") as driver:
        driver.wait_until(lambda: guarded.landed() == list(range(100)), "the events land")
        processes = [psutil.Process(one.pid) for one in driver.family()]
        argv = [" ".join(one.cmdline()) for one in processes]
        environments = [str(one.environ()) for one in processes]
        pages = [page(port, path) for path in PAGES]
        logs = [file.read_text(errors="replace") for file in (*tmp_path.glob("*.log"), *driver.scratch.rglob("*.log"))]
        driver.signal(signal.SIGTERM)
        assert driver.ended() == 0, driver.told()
    written = [file.read_text(errors="replace") for file in events.rglob("*") if file.is_file()]
    assert any("sasl.jaas.config = [hidden]" in text for text in logs)  # they are there, and so talkative
    assert any(guarded.name in text for text in written)
    assert "fs.s3a.secret.key" in "".join(pages)
    assert bool(tokens.given) == (by == "token")
    assert (
        shown(
            (own, tokens.secret, *tokens.given, *guarded.secrets),
            *argv,
            *environments,
            *pages,
            *logs,
            *written,
            driver.told(),
        )
        == []
    )


def talkative(folder: Path) -> Path:
    """A configuration of Spark's log in which everything is written to a file."""
    settings = {
        "appender.file.type": "File",
        "appender.file.name": "file",
        "appender.file.fileName": str(folder / "everything.log"),
        "appender.file.layout.type": "PatternLayout",
        "appender.file.layout.pattern": "%d %p %c %m%n%ex",
        "rootLogger.level": "debug",
        "rootLogger.appenderRef.file.ref": "file",
    }
    file = folder / "log4j2.properties"
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    return file


def page(port: int, path: str) -> str:
    """One of Spark's own pages, or of its answers to scripts."""
    base = f"http://{ports.HOST}:{port}"
    with urlopen(f"{base}/api/v1/applications") as answer:  # noqa: S310 (our own Spark)
        (application,) = json.load(answer)
    with urlopen(f"{base}/{path.format(application['id'])}") as answer:  # noqa: S310
        return str(answer.read().decode())


@pytest.mark.proof
@pytest.mark.timeout(600)
@pytest.mark.parametrize("words", ["java", "librdkafka"])
def test_the_whole_pipeline_runs_on_spark_too(guarded: SecuredFlow, words: str, elsewhere: Command) -> None:
    guarded.allow_auditing()
    guarded.produce(range(100))
    kafka = guarded.broker.as_java() if words == "java" else guarded.broker.as_librdkafka()
    spec = str(guarded.declare(kafka, engine="spark", spark={"spark.master": "local[2]"}))
    said = []
    for command in ("plan", "run --once", "status", "audit --engine spark"):
        ended = elsewhere(*command.split(), "--spec", spec, "--format", "json")
        assert ended.code == 0, ended
        said += [ended.out, ended.err]
    assert guarded.landed() == list(range(100))
    assert shown(guarded.secrets, *said) == []
