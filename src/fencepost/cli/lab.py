"""`fencepost lab`."""

from __future__ import annotations

import random
import shlex
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fencepost.cli.output import FormatOption, OutputFormat, emit_json, emit_table, note, say
from fencepost.errors import FencepostError, Usage
from fencepost.machine.counting import count

if TYPE_CHECKING:
    from fencepost.lab.pipelines.theirs import Theirs
    from fencepost.lab.record import Say
    from fencepost.lab.scenario import Scenario
    from fencepost.lab.session import Played

app = typer.Typer(help="Break real brokers, drivers and databases, and show that the guarantee holds.")
HomeOption = Annotated[
    Path, typer.Option("--home", metavar="DIR", envvar="FENCEPOST_LAB_HOME", help="Where runs are kept.")
]
HOME = Path("fencepost-lab")


@app.command("list")
def list_(output: FormatOption = OutputFormat.TEXT) -> None:
    """Show every scenario, and which faults are not played and why.

    Example: fencepost lab list
    """
    from fencepost.lab.catalogue import catalogue, scenarios

    known, faults = list(scenarios().values()), catalogue().faults
    undone = [(one, one.part or faults[one.fault]) for one in catalogue().undone]
    if output is OutputFormat.JSON:
        columns = ("name", "fault", "guarantee", "sink", "engine", "seconds", "tells")
        emit_json(
            {
                "scenarios": [{name: getattr(one, name) for name in columns} for one in known],
                "not_played": [{"fault": one.fault, "what": what, "why": one.why} for one, what in undone],
            }
        )
        return
    rows = [[one.name, one.fault, one.guarantee, one.sink, one.engine, one.seconds] for one in known]
    emit_table(["name", "fault", "guarantee", "sink", "engine", "seconds"], rows)
    say(f"{len(known)} scenarios, about {sum(one.seconds for one in known) // 60} minutes")
    if undone:
        say()
        say("Not played:")
        for one, what in undone:
            say(f"  {one.fault} {what}: {one.why}")


@app.command()
def run(  # noqa: PLR0913, PLR0917 (each is an option of the command)
    names: Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Scenarios, or rows of several.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every scenario.")] = False,
    fault: Annotated[int | None, typer.Option(help="Every scenario of this fault.")] = None,
    pipeline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Break your own pipeline: every scenario of its engine, sink and guarantee."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="With --pipeline: an event a line. Default: made from the schema."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draw the same again. Default: a new one.")] = None,
    home: HomeOption = HOME,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Break it, audit every event, and show beside it what happens without the guarantee.

    On a temporary stack of its own, which several scenarios share. Exits with 0 if all hold, with 1 if one is broken,
    with 5 if one is inconclusive or vacuous.
    Example: fencepost lab run --fault 7
    """
    from fencepost.lab.judge import Judgement, worst
    from fencepost.lab.pipelines.scene import How
    from fencepost.lab.session import Session

    if sum((bool(names), everything, fault is not None)) > 1:
        raise Usage("names, --all and --fault exclude each other", "give one of them")
    theirs = _theirs(pipeline, data)
    wanted = _wanted(theirs, names or [], everything=everything, fault=fault)
    judgements = []
    with _telling(output) as told, closing(Session(home, told, How(_drawn(seed), theirs)).play(wanted)) as plays:
        for played in plays:
            judgements.append(played.verdict.judgement)
            if output is OutputFormat.JSON:
                emit_json(played.as_json())
            else:
                _conclude(played)
        if len(judgements) > 1:
            told(f"{judgements.count(Judgement.HOLDS)} of {len(judgements)} hold")
    raise typer.Exit(worst(judgements).exit_code)


class _Unheard(BaseException):
    """Nobody hears the lab any more. No Exception: a run would take that for its own trouble, and go on."""

    def __init__(self, error: FencepostError) -> None:
        super().__init__()
        self.error = error


@contextmanager
def _telling(output: OutputFormat) -> Iterator[Say]:
    """What happens, line by line: to stdout, or beside JSON."""
    speak = say if output is OutputFormat.TEXT else note

    def tell(line: str) -> None:
        try:
            speak(line)
        except FencepostError as error:
            raise _Unheard(error) from error

    try:
        yield tell
    except _Unheard as unheard:
        raise unheard.error from None


def _theirs(pipeline: Path | None, data: Path | None) -> Theirs | None:
    if pipeline is None:
        if data is not None:
            raise Usage("--data goes with --pipeline", "give the pipeline's file too")
        return None
    from fencepost.lab.pipelines.theirs import Theirs

    return Theirs.load(pipeline, data)


def _wanted(theirs: Theirs | None, names: list[str], *, everything: bool, fault: int | None) -> list[Scenario]:
    from fencepost.lab.catalogue import chosen

    if theirs is None:
        return chosen(names, everything=everything, fault=fault)
    named = chosen(names, everything=everything or not (names or fault), fault=fault)
    fitting = [scenario for scenario in named if theirs.fits(scenario)]
    left_out = [name for name in names if not any(name in (one.name, one.row) for one in fitting)]
    if fitting and not left_out:
        return fitting
    what = f"engine {theirs.spec.engine}, sink {theirs.spec.sink.format}, {theirs.spec.guarantee}"
    none = f"{left_out[0]} is not" if left_out else "no such scenario is"
    raise Usage(f"{none} played with a pipeline of one's own with {what}", "see `fencepost lab list`")


def _drawn(seed: int | None) -> int:
    return random.SystemRandom().randrange(2**31) if seed is None else seed


def _conclude(played: Played) -> None:
    for name, trial in (("guarded", played.guarded), ("control", played.control)):
        found = ", ".join(f"{code} {count:,}" for code, count in sorted(trial.anomalies.items()) if count) or "nothing"
        stopped = f"; stopped with {trial.stopped}" if trial.stopped else ""
        say(f"  {name} ({trial.setting}): {trial.landed:,} landed of {trial.sent:,}: {found}{stopped}")
    say(f"{played.scenario.name}: {played.verdict.judgement.upper()} in {played.seconds:.1f} s ({played.folder})")
    if played.verdict.judgement.exit_code:
        say(f"  again: {played.command}")


@app.command()
def compare(
    engine: Annotated[Literal["python", "spark"], typer.Option(help="What moves the events.")] = "python",
    sink: Annotated[str | None, typer.Option(help="postgres (default), kafka, delta or iceberg.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Draw the same again. Default: a new one.")] = None,
    home: HomeOption = HOME,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Run the same fault against what people use instead, beside ours.

    Plain consumer loops, or Spark's own sinks. Exits with 0 if ours lost and doubled nothing.
    Example: fencepost lab compare --sink kafka
    """
    from fencepost.lab.comparing import compare as compared
    from fencepost.lab.judge import Judgement
    from fencepost.lab.pipelines.scene import How
    from fencepost.lab.scenario import Engine
    from fencepost.lab.soak.soak import SINKS

    with _telling(output) as tell:
        told = compared(Engine(engine), sink or SINKS[0], How(_drawn(seed)), home, tell)
    if output is OutputFormat.JSON:
        emit_json(told)
    else:
        columns = ["setting", "sent", "landed", "lost", "duplicated"]
        emit_table(columns, [[trial[column] for column in columns] for trial in told["trials"]])
        _tell_end(told)
    raise typer.Exit(Judgement(told["verdict"]).exit_code)


@app.command()
def soak(  # noqa: PLR0913, PLR0917 (each is an option of the command)
    minutes: Annotated[float, typer.Option(min=0.05, help="For how long things are broken.")] = 10.0,
    sink: Annotated[str | None, typer.Option(help="postgres (default) or kafka.", show_default=False)] = None,
    engine: Annotated[Literal["python", "spark"], typer.Option(help="The pipeline's engine.")] = "spark",
    rate: Annotated[int, typer.Option(min=1, help="Events a second, of each of two producers.")] = 400,
    seed: Annotated[int | None, typer.Option(min=0, help="Draw the same again. Default: a new one.")] = None,
    home: HomeOption = HOME,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Break two things at a time, for minutes, under two producers and an exactly-once pipeline; then compare every id.

    Brokers, producers, the driver and PostgreSQL are killed, stopped and cut off as a seed says.
    Example: fencepost lab soak --minutes 60 --seed 7
    """
    from fencepost.lab.judge import Judgement
    from fencepost.lab.scenario import Engine
    from fencepost.lab.soak.soak import Asked
    from fencepost.lab.soak.soak import soak as soaked

    asked = Asked.of(minutes, _drawn(seed), sink, Engine(engine), rate)
    with _telling(output) as tell:
        verdict = soaked(asked, home, tell)
    if output is OutputFormat.JSON:
        emit_json(verdict)
    else:
        _tell_soak(verdict)
    raise typer.Exit(Judgement(verdict["verdict"]).exit_code)


def _tell_soak(verdict: dict[str, Any]) -> None:
    _tell_end(verdict)
    if verdict["verdict"] == "inconclusive":
        return
    blows = ", ".join(f"{blow} {times}" for blow, times in verdict["blows"].items())
    recovery, bound = verdict["recovery_seconds"], verdict["bound"]
    say(f"  {count(verdict['sent'], 'event')}; {blows}; {verdict['hit_in_flight']} hit events on their way")
    say(f"  something landed again after {recovery['p50']} s (p50), {recovery['p99']} s (p99)")
    if bound:
        say(f"  none of these did harm: with 95 % certainty fewer than {bound:.2%} of such strikes do")


@app.command()
def show(
    which: Annotated[str, typer.Argument(metavar="RUN", help="The name of a run, a part of it, or `last`.")],
    home: HomeOption = HOME,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Tell a run again: what happened, in order, and the verdict. Exits with 5 where it came to none.

    Example: fencepost lab show last
    """
    from fencepost.lab.record import folder_of, history_of, verdict_of

    folder = folder_of(home, which)
    lines, verdict = history_of(folder), verdict_of(folder)
    if output is OutputFormat.JSON:
        emit_json({"run": folder.name, "history": lines, "verdict": verdict})
    else:
        say(folder.name)
        for line in lines:
            say(f"  {line['at']:6.1f} s  {_of_run(line)}{line['text']}")
        _tell_end(verdict)
    raise typer.Exit(0 if verdict else 5)


def _of_run(line: dict[str, Any]) -> str:
    return f"{line['run']}: " if line["run"] else ""


def _tell_end(verdict: dict[str, Any] | None) -> None:
    if verdict is None:
        say("it came to no verdict")
        return
    say(f"{verdict['name']}: {verdict['verdict'].upper()}: {verdict['reason']}")
    if verdict["verdict"] != "holds":
        say(f"  again: {verdict['command']}")


@app.command()
def report(
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where index.html goes. Default: the folder of the runs."),
    ] = None,
    pipeline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="About the runs of `lab run --pipeline FILE`, and no others.")
    ] = None,
    home: HomeOption = HOME,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Write one page about the last run of each scenario: what was broken, and what held.

    Example: fencepost lab report --out report
    """
    from fencepost.lab.report.page import last_runs, shown_of, write_report
    from fencepost.spec import load

    whose = load(pipeline).name if pipeline else ""
    last = last_runs(home, whose)
    if not last:
        with_it = f" of pipeline {whose!r}" if whose else ""
        words = ["fencepost", "lab", "run", *(["--pipeline", str(pipeline)] if pipeline else ["NAME"])]
        raise Usage(f"there is no run{with_it} in {home}", f"make one: {shlex.join(words)}")
    path, held = write_report(home, out or home, whose)
    scenarios = len(shown_of(last, whose))
    if output is OutputFormat.JSON:
        emit_json({"page": path, "green": held, "scenarios": scenarios})
    else:
        say(f"{path}: {held} of {count(scenarios, 'scenario')} hold")
