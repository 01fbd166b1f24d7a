"""The programs of a soak that are broken and started again: producers that resume from a file, and the pipeline."""

from __future__ import annotations

from pathlib import Path

from fencepost.errors import Unreachable
from fencepost.lab.keeper import TOKEN
from fencepost.lab.pipelines.flow import Flow
from fencepost.lab.pipelines.work import Work
from fencepost.lab.programs import Program
from fencepost.lab.scenarios.field import QUICK, Field

_AGAIN = (3, 5)  # Kafka or the sink did not answer for too long, or it is not known: a supervisor starts it again


class Worker:
    """One program under a supervisor that starts it again whenever it has ended, as long as it should run."""

    def __init__(self, name: str, field: Field, folder: Path, module: str, arguments: list[str]) -> None:
        self.name = name
        self._field = field
        self._folder = folder
        self._module = module
        self._arguments = arguments
        self._running: Program | None = None
        self.starts = 0

    def attend(self) -> None:
        """Start it if it is not there. Raises Unreachable where it ended with what no restart mends."""
        if self._running is not None and self._running.code is None:
            return
        if self._running is not None and (code := self._running.code) is not None and code > 0 and code not in _AGAIN:
            raise Unreachable(f"{self.name} ended with {code}", f"see {self._log}")
        self.starts += 1
        environment = {TOKEN: self._field.token, "TMPDIR": str(self._folder / f"{self.name}-scratch")}
        self._running = Program(self._module, self._arguments, self._log, environment)

    @property
    def _log(self) -> Path:
        return self._folder / f"{self.name}.log"

    @property
    def finished(self) -> bool:
        """Has it ended by itself, with everything done?"""
        return self._running is not None and self._running.code == 0

    def kill(self) -> None:
        if self._running is not None:
            self._running.kill_tree()

    def stop(self) -> None:
        if self._running is not None:
            self._running.stop_tree()

    def cont(self) -> None:
        if self._running is not None:
            self._running.go_on()


def producer(number: int, lines: int, rate: int, flow: Flow, folder: Path) -> tuple[Worker, range]:
    """`fencepost produce` of a file, exactly once across restarts; and the ids that it sends."""
    ids = range(number * lines, (number + 1) * lines)
    source = folder / f"lines-{number}.jsonl"
    with source.open("w") as file:
        file.writelines(f'{{"id": {id_}}}\n' for id_ in ids)
    quick = [word for name, value in QUICK.items() for word in ("-X", f"{name}={value}")]
    words = ["produce", "--topic", flow.topic, "--guarantee", "exactly-once", "--file", str(source), "--from-start"]
    where = ["--bootstrap-server", flow.field.stack.bootstrap_servers, "--name", f"lines-{number}"]
    pace = ["--rate", str(rate), "--batch", str(max(rate // 2, 1))]
    worker = Worker(f"producer-{number}", flow.field, folder, "fencepost", [*words, *where, *pace, *quick])
    return worker, ids


def driver(flow: Flow, spec: Path, folder: Path, *, once: bool = False) -> Worker:
    """The pipeline, which goes on until it is ended, or (once) up to the end of its topic."""
    work = Work(spec=spec, news=folder / "news.jsonl", once=once)
    return Worker("driver", flow.field, folder, "fencepost.lab.pipelines.carrier", [work.model_dump_json()])
