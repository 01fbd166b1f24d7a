"""An archive of the classes that a broker loads (AppCDS), made once per Java and set of jars: starts take a third less.

It is made by a throw-away node that is told to write it when it ends.
"""

from __future__ import annotations

import dataclasses
import hashlib
import shutil
import signal
import tempfile
from contextlib import suppress
from pathlib import Path

from fencepost.local import kafka, orphans, ports
from fencepost.local.kafka import Runtime
from fencepost.machine import cache, process
from fencepost.machine.process import Program
from fencepost.machine.progress import Progress

_PATIENCE = 60.0
_DUMPING = 30.0
_NODE = 1
_PREFIX = "node-"
_SETTINGS = """node.id={node}
process.roles=broker,controller
log.dirs=data
controller.quorum.voters={node}@{host}:{controller}
controller.listener.names=CONTROLLER
listeners=CONTROLLER://{host}:{controller},DIRECT://{host}:{direct}
advertised.listeners=DIRECT://{host}:{direct}
inter.broker.listener.name=DIRECT
listener.security.protocol.map=CONTROLLER:PLAINTEXT,DIRECT:PLAINTEXT
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=4
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def with_archive(runtime: Runtime, progress: Progress) -> Runtime:
    """The same runtime with its archive, which is made now if there is none; without, where that cannot be done."""
    archive = cache.folder() / "cds" / f"{_key(runtime)}.jsa"
    if not archive.exists():
        try:
            with cache.exclusive("cds", progress) as folder:
                if not archive.exists():
                    _make(runtime, archive, folder, progress)
        except OSError as error:  # a cache that is full or not ours: slower starts, and nothing else
            progress.note(f"starting without an archive of Kafka's classes: {error}")
    # An empty file says that this Java cannot make one: it need not be tried at every start.
    made = archive.exists() and archive.stat().st_size > 0
    return dataclasses.replace(runtime, archive=archive) if made else runtime


def without_damage(runtime: Runtime, progress: Progress) -> Runtime:
    """The same runtime where its archive is whole or there is none; else one without, and the archive is removed."""
    if runtime.archive is None or not runtime.archive.exists():
        return dataclasses.replace(runtime, archive=None) if runtime.archive else runtime
    with tempfile.TemporaryDirectory() as folder:
        if _whole(runtime, runtime.archive, Path(folder)):
            return runtime
    progress.note(f"{runtime.archive} is damaged: removed, and starting without it")
    with suppress(OSError):  # in a cache that is not ours: whoever owns it is told by the next start
        runtime.archive.unlink(missing_ok=True)
    return dataclasses.replace(runtime, archive=None)


def _key(runtime: Runtime) -> str:
    facts = [str(runtime.java.executable.resolve()), runtime.java.version]
    for jar in runtime.jars:  # as Java itself does when it decides whether an archive fits
        entry = jar.stat()
        facts.append(f"{jar} {entry.st_size} {entry.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]


def _make(runtime: Runtime, archive: Path, folder: Path, progress: Progress) -> None:
    progress.note("preparing Kafka's classes for quick starts (once)")
    _clear(folder)
    with tempfile.TemporaryDirectory(dir=folder, prefix=_PREFIX) as name:
        node = Path(name)
        direct = _configure(node)
        with process.finishing(kafka.formatting(runtime, node, node, kafka.new_id())) as formatting:
            formatting.wait()
        draft = node / "archive.jsa"
        serving = kafka.serving(runtime, node, node, f"-XX:ArchiveClassesAtExit={draft}")
        with process.finishing(serving) as running:
            process.until(lambda: running.poll() is not None or kafka.usable({_NODE: direct}, replicas=1), _PATIENCE)
            served = running.poll() is None
            running.send_signal(signal.SIGTERM)
            process.until(lambda: running.poll() is not None, _DUMPING)
        if served and not draft.exists():
            draft.touch()
        if served and (draft.stat().st_size == 0 or _whole(runtime, draft, node)):
            draft.replace(archive)


def _whole(runtime: Runtime, archive: Path, folder: Path) -> bool:
    """Is it all there? Java maps an archive without reading it: one that a full disk cut short would crash it."""
    checked = dataclasses.replace(runtime, archive=archive)
    argv = checked.command("-version", options=["-Xshare:on", "-XX:+VerifySharedSpaces"])
    with process.finishing(Program(argv, folder=folder, log=folder / "out.log", env=runtime.env)) as running:
        return running.wait() == 0


def _clear(folder: Path) -> None:
    """End and remove the nodes of runs that were killed here."""
    for left in folder.glob(f"{_PREFIX}*"):
        orphans.end(orphans.find(left, known=()))
        shutil.rmtree(left)


def _configure(node: Path) -> int:
    controller = ports.choose(None, ())
    direct = ports.choose(None, {controller})
    text = _SETTINGS.format(node=_NODE, host=ports.HOST, controller=controller, direct=direct)
    (node / "server.properties").write_text(text)
    return direct
