"""The Spark session: jars, addresses and the settings that the guarantee requires."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from threading import Thread

import psutil
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost.engines.spark import class_archive, scratch
from fencepost.engines.spark.authentication import authentication
from fencepost.errors import FencepostError, Unreachable
from fencepost.machine import cache, process
from fencepost.machine.jars import fetch
from fencepost.machine.java import find, home_for_spark
from fencepost.rules.findings import require_fixed
from fencepost.sinks.kind import NeedsSpark, SparkNeeds
from fencepost.spec import PipelineSpec

FIXED = {
    # a throw-away checkpoint needs no rename that survives a crash: 115 ms less per batch
    "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
    "FileSystemBasedCheckpointFileManager",
    "spark.python.daemon.module": "fencepost.engines.spark.worker_daemon",
    "spark.sql.ansi.enabled": "true",
    "spark.speculation": "false",
}
DEFAULTS = {
    "spark.master": "local[*]",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.streaming.numRecentProgressUpdates": "4",
    # records that a query fetched and did not need are kept for five minutes after it, several MB a partition
    "spark.kafka.consumer.fetchedData.cache.timeout": "10s",
    "spark.kafka.consumer.fetchedData.cache.evictorThreadRunInterval": "10s",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.log.level": "ERROR",
}
# what Spark's pages, logs and event log do not show the values of; its own expressions know nothing of Kafka's names
SECRETS = "(?i)secret|password|passwd|token|credential|access[.]?key|jaas|keystore[.]key|key[.]pem"
REDACTION = ("spark.redaction.regex", "spark.sql.redaction.options.regex")
TO_END = 30.0  # seconds for a JVM that nobody needs any more
LAST_BREATH = 5.0  # seconds from the end of a process's connections to its own
_FAILED = (PySparkException, Py4JError, RuntimeError)  # whatever pyspark raises when the JVM fails
DRIVER_OPTIONS = "-Xss16m"  # stopping in the middle of a Python batch overflows a smaller stack


NOTHING = SparkNeeds((), {})
_class_path: set[Path] = set()  # of the JVM that this process has


def settings_of(
    user: Mapping[str, str], jars: Iterable[Path], place: Path, needs: SparkNeeds = NOTHING, archive: str = ""
) -> dict[str, str]:
    """What the session is made with: our defaults, then the user's, then what is not up to anybody.

    `archive`: Java's option for an archive of Spark's classes.
    """
    fixed = {**FIXED, **needs.fixed}
    require_fixed(user, fixed, "spark")
    merged = {**DEFAULTS, **needs.defaults, "spark.local.dir": str(place), **user, **fixed}
    merged |= authentication(user, merged["spark.master"])
    merged["spark.jars"] = ",".join(filter(None, [*map(str, jars), user.get("spark.jars", "")]))
    for name in REDACTION:
        merged[name] = "|".join(filter(None, [SECRETS, user.get(name, "")]))
    ours = " ".join(filter(None, [DRIVER_OPTIONS, archive, f"-Djava.io.tmpdir={shlex.quote(str(place))}"]))
    if "spark.driver.memory" not in user and "-XX:+Use" not in user.get("spark.driver.extraJavaOptions", ""):
        ours += " -XX:+UseSerialGC"  # G1 lets a heap as small as ours fill up with garbage
    merged["spark.driver.extraJavaOptions"] = f"{ours} {user.get('spark.driver.extraJavaOptions', '')}".strip()
    return merged


@contextmanager
def open_session(name: str, user: Mapping[str, str], needs: SparkNeeds = NOTHING) -> Iterator[SparkSession]:
    """A session with the user's settings, whose own lines go to a file, which is kept when Spark does not start.

    `needs`: of the sink, besides what every session has.
    """
    place = scratch.folder()
    jars = fetch("spark", *needs.jars)
    plain = settings_of(user, jars, place, needs)
    _require_jars(jars)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    java = find()
    os.environ["JAVA_HOME"] = str(home_for_spark(java, cache.folder()))
    archive = "" if SparkContext._gateway else class_archive.option(java)
    settings = settings_of(user, jars, place, needs, archive)
    log = place / "spark.log"
    session: SparkSession | None = None
    try:
        session = _started(name, settings, place, log)
    except _FAILED as error:
        if archive and SparkContext._gateway is None:
            session = _again(lambda: _started(name, plain, place, log))
        if session is None:
            raise Unreachable(f"Spark does not start: {str(error).splitlines()[0]}", f"see {_kept(log)}") from error
        class_archive.drop(java)
    _hush(session)
    try:
        session.sparkContext.setLogLevel(settings["spark.log.level"])
        yield session
    except FencepostError:
        raise
    except Exception as error:
        if not _is_gone(error):
            raise
        raise Unreachable("Spark's JVM exited during the run", "check why it exited, and run again") from error
    finally:
        _end(session)


def _started(name: str, settings: Mapping[str, str], place: Path, log: Path) -> SparkSession:
    with _stderr_into(log), _whole_start(place), _out_of_argv(settings, place) as told:
        builder = SparkSession.builder.appName(f"fencepost {name}")
        for key, value in told.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def _again(start: Callable[[], SparkSession]) -> SparkSession | None:
    """Another try, without the archive; None where that was not it."""
    try:
        return start()
    except _FAILED:
        return None


def session_for(spec: PipelineSpec) -> AbstractContextManager[SparkSession]:
    """With what the pipeline's sink needs."""
    kind = spec.sink.kind
    return open_session(spec.name, spec.spark, kind.needs(spec.job) if isinstance(kind, NeedsSpark) else NOTHING)


def _require_jars(jars: Iterable[Path]) -> None:
    """A JVM reads its class path when it starts: one that was started for another sink, and is idle, is ended."""
    child = SparkContext._gateway.proc if SparkContext._gateway else None
    if child is not None and SparkContext._active_spark_context is None and not _class_path.issuperset(jars):
        end_jvm()
    if SparkContext._gateway is None:
        _class_path.clear()
        _class_path.update(jars)


def end_jvm(seconds: float = TO_END) -> None:
    """The JVM that this process has, and no session of it: it has ended on return, by itself within so many seconds."""
    child = SparkContext._gateway.proc  # type: ignore[union-attr]
    _forget()
    child.stdin.close()  # on which it ends by itself
    if not process.until(lambda: child.poll() is not None, seconds):
        child.kill()


def jvm_command() -> list[str]:
    """Of the JVM that this process has."""
    return psutil.Process(SparkContext._gateway.proc.pid).cmdline()  # type: ignore[union-attr]


@contextmanager
def _out_of_argv(settings: Mapping[str, str], place: Path) -> Iterator[Mapping[str, str]]:
    """What pyspark may write into the JVM's command line, where everybody can read it; the rest is in a file meanwhile.

    A JVM that runs already is told everything through its own connection.
    """
    hidden = hidden_of(settings)
    if not hidden or SparkContext._gateway:
        yield settings
        return
    file, before = place / "hidden.properties", os.environ.get("PYSPARK_SUBMIT_ARGS")
    os.environ["PYSPARK_SUBMIT_ARGS"] = submit_args(hidden, file)
    try:
        yield {key: value for key, value in settings.items() if key not in hidden}
    finally:
        file.unlink()
        if before is None:
            del os.environ["PYSPARK_SUBMIT_ARGS"]
        else:
            os.environ["PYSPARK_SUBMIT_ARGS"] = before


def hidden_of(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that may hold a password."""
    return {key: value for key, value in settings.items() if re.search(SECRETS, key) and key not in REDACTION}


def submit_args(hidden: Mapping[str, str], file: Path) -> str:
    """What tells pyspark, beside what it is told already, to read these settings from a file that only we can read."""
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as lines:
        lines.writelines(f"{key}={_escaped(value)}\n" for key, value in hidden.items())
    own = f"--load-spark-defaults --properties-file {shlex.quote(str(file))}"
    return f"{own} {os.environ.get('PYSPARK_SUBMIT_ARGS') or 'pyspark-shell'}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _kept(log: Path) -> Path:
    """A copy that outlives this process."""
    handle, kept = tempfile.mkstemp(prefix="fencepost-spark-", suffix=".log")
    os.close(handle)
    return Path(shutil.copyfile(log, kept))  # not its mode: this one only we can read


def _hush(session: SparkSession) -> None:
    """Keep quiet whoever prints what is raised anyway."""
    for logger in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "py4j"):
        logging.getLogger(logger).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_not_py4j)  # some of its lines go past its own logger
    session.sparkContext._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]


def _not_py4j(record: logging.LogRecord) -> bool:
    return Path(record.pathname).parent.name != "py4j"


def _is_gone(error: Exception | None = None) -> bool:
    """Has Spark's process ended? An error on the line to it comes a moment before."""
    child = SparkContext._gateway.proc if SparkContext._gateway else None
    if child is None:
        return False  # not started by us
    cut_off = isinstance(error, Py4JError | OSError) and not isinstance(error, Py4JJavaError)
    return process.until(lambda: child.poll() is not None, LAST_BREATH if cut_off else 0.0)


def _end(session: SparkSession) -> None:
    """Stop the session. Of a Spark that is gone pyspark forgets everything, so that the next session starts fresh."""
    if not _is_gone():
        server = session.sparkContext._accumulatorServer
        # It waits up to a second for a thread that nobody needs any more.
        server.shutdown = Thread(target=server.shutdown, daemon=True).start  # type: ignore[method-assign]
        session.stop()
        return
    session.sparkContext._jsc = None  # nobody to tell
    session.sparkContext.stop()
    _forget()


def _forget() -> None:
    """The JVM: pyspark starts another one for the next session."""
    if SparkContext._gateway:
        SparkContext._gateway.shutdown()
    SparkContext._gateway = SparkContext._jvm = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None


@contextmanager
def _whole_start(place: Path) -> Iterator[None]:
    """What fails or is interrupted inside takes Spark along: pyspark would leave a JVM behind that never ends."""
    try:
        yield
    except BaseException:
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                if any(str(place) in word for word in child.cmdline()):
                    child.kill()  # psutil compares the start time before
        raise


@contextmanager
def _stderr_into(log: Path) -> Iterator[None]:
    """What is started inside writes its errors there, for as long as it lives; this process only meanwhile."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("ab") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
