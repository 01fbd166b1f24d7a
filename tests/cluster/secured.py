"""A broker that lets in only who has a certificate's trust, a password or a token, and a right: SASL_SSL and ACLs."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from cluster.tokens import CLIENT, SCOPE, TokenKey, TokenPlace
from fencepost.kafka.client import Cluster
from fencepost.local import cds, kafka, ports
from fencepost.local.kafka import Runtime
from fencepost.machine import jars, java, process
from fencepost.machine.process import Program
from fencepost.machine.progress import Silent

USER = "carrier"
MECHANISM = "SCRAM-SHA-512"
_LISTENERS = ("SECURE", "MISNAMED", "TOKENS", "DIRECT", "CONTROLLER")
_OAUTH = "org.apache.kafka.common.security.oauthbearer"
_ALLOWED = "org.apache.kafka.sasl.oauthbearer.allowed"
_PATIENCE = 90.0


class Certificates:
    """Two authorities; a certificate of the first for this machine, and one of the first for another."""

    def __init__(self, folder: Path) -> None:
        openssl = shutil.which("openssl")
        assert openssl, "these tests make certificates with the program openssl"
        self._openssl, self._folder = openssl, folder
        self.authority = self._authority("authority")
        self.stranger = self._authority("stranger")
        self.broker = self._signed("broker", f"IP:{ports.HOST},DNS:localhost")
        self.misnamed = self._signed("misnamed", "DNS:elsewhere.example")
        self.tokens = TokenKey(openssl, folder / "stranger.key")

    def _authority(self, name: str) -> Path:
        self._new(name, "-x509", "-subj", f"/CN={name}", "-days", "2", "-out", f"{name}.pem")
        return self._folder / f"{name}.pem"

    def _signed(self, name: str, names: str) -> Path:
        """Key and certificate in one file, as Kafka's PEM keystore wants them."""
        signing = ["-CA", str(self.authority), "-CAkey", "authority.key", "-days", "2"]
        extension = ["-addext", f"subjectAltName={names}", "-addext", "basicConstraints=critical,CA:FALSE"]
        self._new(name, "-x509", "-subj", f"/CN={name}", *signing, *extension, "-out", f"{name}.crt")
        store = self._folder / f"{name}.pem"
        store.write_text((self._folder / f"{name}.key").read_text() + (self._folder / f"{name}.crt").read_text())
        return store

    def _new(self, name: str, *words: str) -> None:
        key = ["-newkey", "rsa:2048", "-noenc", "-keyout", f"{name}.key"]
        subprocess.run([self._openssl, "req", *key, *words], cwd=self._folder, check=True, capture_output=True)


@dataclass(frozen=True)
class SecuredBroker:
    """One broker with its controller in one process. What asks on DIRECT may do everything."""

    ports: dict[str, int]
    certificates: Certificates
    password: str

    @property
    def servers(self) -> str:
        return f"{ports.HOST}:{self.ports['SECURE']}"

    @property
    def misnamed_servers(self) -> str:
        """The same broker, under a certificate for another name."""
        return f"{ports.HOST}:{self.ports['MISNAMED']}"

    def administrator(self) -> Cluster:
        return Cluster({"bootstrap.servers": f"{ports.HOST}:{self.ports['DIRECT']}"})

    def as_librdkafka(self, **instead: str) -> dict[str, str]:
        """What a client needs, in librdkafka's words."""
        given = {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": MECHANISM,
            "sasl.username": USER,
            "sasl.password": self.password,
            "ssl.ca.location": str(self.certificates.authority),
        }
        return {**given, **{name.replace("_", "."): value for name, value in instead.items()}}

    def as_java(self) -> dict[str, str]:
        """The same in Java's."""
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        return {
            "bootstrap.servers": self.servers,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": MECHANISM,
            "sasl.jaas.config": f'{module} required username="{USER}" password="{self.password}";',
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
        }

    def with_tokens(self, place: TokenPlace, secret: str | None = None) -> dict[str, str]:
        """What a client needs that comes with a token, in librdkafka's words."""
        return {
            "bootstrap.servers": f"{ports.HOST}:{self.ports['TOKENS']}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": place.url,
            "sasl.oauthbearer.client.id": CLIENT,
            "sasl.oauthbearer.client.secret": secret or place.secret,
            "sasl.oauthbearer.scope": SCOPE,
            "https.ca.location": str(self.certificates.authority),
            "ssl.ca.location": str(self.certificates.authority),
        }

    def with_tokens_in_java(self, place: TokenPlace) -> dict[str, str]:
        """The same in Java's."""
        options = {"clientId": CLIENT, "clientSecret": place.secret, "scope": SCOPE, "ssl.truststore.type": "PEM"}
        options["ssl.truststore.location"] = str(self.certificates.authority)
        line = " ".join(f'{name}="{value}"' for name, value in options.items())
        return {
            "bootstrap.servers": f"{ports.HOST}:{self.ports['TOKENS']}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": f"{_OAUTH}.OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": place.url,
            "sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required {line};",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.certificates.authority),
        }

    def allow(self, resource: ResourceType, name: str, *operations: AclOperation, prefix: bool = False) -> None:
        """The user may do this from now on."""
        pattern = ResourcePatternType.PREFIXED if prefix else ResourcePatternType.LITERAL
        rules = [
            AclBinding(resource, name, pattern, f"User:{USER}", "*", operation, AclPermissionType.ALLOW)
            for operation in operations
        ]
        cluster = self.administrator()  # must outlive its futures
        for done in cluster.admin.create_acls(rules).values():
            done.result(30)


@contextmanager
def secured_broker(password: str) -> Iterator[SecuredBroker]:
    with tempfile.TemporaryDirectory(prefix="fencepost-secured-") as name:
        folder = Path(name)
        taken: dict[str, int] = {}
        for listener in _LISTENERS:
            taken[listener] = ports.choose(None, taken.values())
        broker = SecuredBroker(taken, Certificates(folder), password)
        (folder / "server.properties").write_text(_properties(broker))
        runtime = cds.with_archive(Runtime(java.find(), jars.fetch("broker", progress=Silent())), Silent())
        with process.finishing(_formatting(runtime, folder, password)) as formatting:
            assert formatting.wait() == 0, (folder / "out.log").read_text()
        with process.finishing(_serving(runtime, folder, broker)) as running:
            direct = {1: taken["DIRECT"]}
            ready = process.until(lambda: running.poll() is not None or kafka.usable(direct, 1), _PATIENCE, 0.05)
            assert ready, "the broker does not answer"
            assert running.poll() is None, (folder / "server.log").read_text()[-4000:]
            yield broker


def _serving(runtime: Runtime, folder: Path, broker: SecuredBroker) -> Program:
    """Kafka reads no file of keys that it was not allowed to."""
    program, keys = kafka.serving(runtime, folder, folder), broker.certificates.tokens.published
    allowed = f"-D{_ALLOWED}.urls={keys.as_uri()} -D{_ALLOWED}.files={keys}"
    return replace(program, env={**program.env, "JAVA_TOOL_OPTIONS": allowed})


def _formatting(runtime: Runtime, folder: Path, password: str) -> Program:
    user = f"{MECHANISM}=[name={USER},password={password}]"
    arguments: Sequence[str] = ("format", "-t", kafka.new_id(), "-c", "server.properties", "--add-scram", user)
    return Program(runtime.command(kafka.FORMATTER, *arguments), folder, folder / "out.log", runtime.env)


def _properties(broker: SecuredBroker) -> str:
    own = {name: f"{name}://{ports.HOST}:{port}" for name, port in broker.ports.items()}
    told = [address for name, address in own.items() if name != "CONTROLLER"]
    settings = {
        "node.id": "1",
        "process.roles": "broker,controller",
        "log.dirs": "data",
        "controller.quorum.voters": f"1@{ports.HOST}:{broker.ports['CONTROLLER']}",
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(own.values()),
        "advertised.listeners": ",".join(told),
        "inter.broker.listener.name": "DIRECT",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,DIRECT:PLAINTEXT,SECURE:SASL_SSL,MISNAMED:SASL_SSL,"
        "TOKENS:SASL_SSL",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",  # who comes through DIRECT, and the controller
        "auto.create.topics.enable": "false",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.num.partitions": "4",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    for listener, store in (("secure", broker.certificates.broker), ("misnamed", broker.certificates.misnamed)):
        settings |= {
            f"listener.name.{listener}.ssl.keystore.type": "PEM",
            f"listener.name.{listener}.ssl.keystore.location": str(store),
            f"listener.name.{listener}.sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.{listener}.scram-sha-512.sasl.jaas.config": (
                "org.apache.kafka.common.security.scram.ScramLoginModule required;"
            ),
        }
    tokens = "listener.name.tokens"
    settings |= {
        f"{tokens}.ssl.keystore.type": "PEM",
        f"{tokens}.ssl.keystore.location": str(broker.certificates.broker),
        f"{tokens}.sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{tokens}.oauthbearer.sasl.jaas.config": f"{_OAUTH}.OAuthBearerLoginModule required;",
        f"{tokens}.oauthbearer.sasl.server.callback.handler.class": f"{_OAUTH}.OAuthBearerValidatorCallbackHandler",
        f"{tokens}.oauthbearer.sasl.oauthbearer.jwks.endpoint.url": broker.certificates.tokens.published.as_uri(),
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())
