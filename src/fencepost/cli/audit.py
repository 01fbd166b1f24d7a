"""`fencepost audit`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from fencepost.cli.connection import Connection, connected
from fencepost.cli.offsets import finite, parse_start
from fencepost.cli.output import FormatOption, OutputFormat, emit_json, note, say
from fencepost.cli.pipelines import (
    OwnStreamOption,
    SpecOption,
    local_dsn,
    own_stream_spec,
    pipeline_spec,
    require_no_file,
    require_nothing_given,
)
from fencepost.errors import FencepostError, Usage
from fencepost.guarantee import Guarantee
from fencepost.machine.counting import count
from fencepost.model import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from fencepost.audit.compare import Verdict
    from fencepost.audit.findings import Audit, Hop
    from fencepost.audit.request import AuditRequest

ON_PAGE = 500  # findings that a page shows
_what = partial(typer.Option, rich_help_panel="What is compared")
_how = partial(typer.Option, rich_help_panel="How")


@connected
def audit(  # noqa: PLR0913, PLR0917 (each is an option of the command)
    connection: Connection,
    spec: SpecOption = None,
    topic: Annotated[str | None, _what(help="Audit this topic, without a pipeline file.")] = None,
    sink: Annotated[
        str | None,
        _what(help="With --topic: postgres:TABLE or topic:NAME. With --pipeline: as in a pipeline file."),
    ] = None,
    guarantee: Annotated[
        Guarantee | None,
        _what(
            show_default="exactly-once",
            help="With --topic: the guarantee that was declared. With --pipeline: if its sink does not keep that.",
        ),
    ] = None,
    pipeline: OwnStreamOption = None,
    journal: Annotated[
        list[Path] | None,
        _what(help="A producer's journal, or VerifiableProducer's output. Then the producer's hop is audited too."),
    ] = None,
    since: Annotated[str | None, _what("--from", help="Start here: offsets (0:120,1:7) or a time with a zone.")] = None,
    until: Annotated[str | None, _what("--to", help="End here: offsets or a time, as above.")] = None,
    expect: Annotated[
        str | None,
        _what(
            metavar="CONDITION", help="Spark SQL condition: events that must have a row, when the transform filters."
        ),
    ] = None,
    id_column: Annotated[str | None, _what("--id", metavar="COLUMN", help="Match rows by this column's ids.")] = None,
    payload: Annotated[
        str | None, _what(metavar="COLUMN", help="A column that holds the event's value unchanged.")
    ] = None,
    mode: Annotated[
        Mode | None, _what(help="With --topic: the mode of the sink, that is, which events have a row.")
    ] = None,
    engine: Annotated[Literal["auto", "python", "spark"], _how(help="auto uses Spark for large topics.")] = "auto",
    wait: Annotated[
        float | None, _how(metavar="SECONDS", min=0, callback=finite, help="Wait until the pipeline has drained.")
    ] = None,
    every: Annotated[str | None, _how(metavar="TIME", help="Repeat the audit at this interval, as in 60s.")] = None,
    report: Annotated[Path | None, _how(metavar="DIR", help="Write the result to this HTML page.")] = None,
    most: Annotated[int, typer.Option(min=0, help="Most findings to show. The totals are always exact.")] = 10,
    output: FormatOption = OutputFormat.TEXT,
) -> None:
    """Compare what was sent, what is in the log and what landed, and say whether the declared guarantee holds.

    In a pipeline's folder it audits that pipeline, up to its stored offsets. --pipeline and --sink audit a stream of
    your own, --topic and --sink anything else.
    Exits with 0 if the guarantee holds, or holds for what was checked; with 1 if it is broken; with 5 if that
    cannot be decided.
    """
    from fencepost.audit.request import EngineChoice, of_pipeline

    journals = tuple(journal or ())
    if pipeline is not None:
        require_no_file(spec)
        if topic:
            raise Usage("--topic with --pipeline", "remove it: the topics are those of the stored positions")
        declared = of_pipeline(own_stream_spec(connection, pipeline, sink, guarantee), own_stream=True)
    elif topic:
        declared = _named(connection, topic, sink, guarantee or Guarantee.EXACTLY_ONCE, journals)
    else:
        require_nothing_given(connection)
        declared = of_pipeline(pipeline_spec(spec))
    request = replace(
        declared,
        mode=mode or declared.mode,
        journals=journals,
        expect=expect,
        id_column=id_column,
        payload=payload,
        since=parse_start(since, "--from") if since else None,
        until=parse_start(until, "--to") if until else None,
        engine=EngineChoice(engine),
        most=most if report is None else max(most, ON_PAGE),
    )
    if every is None:
        found = _audit_once(request, wait, report, most, output)
        _keep(request, found)
        _end_with(found)
        return
    if journal:
        raise Usage("--every with --journal", "a journal is compared with the whole log: audit it once")
    if report is not None or wait is not None:
        other = "--wait" if report is None else "--report"
        raise Usage(f"--every with {other}", f"{other} is for one audit: remove one of the two")
    _go_on(request, _period(every), output)


def _named(
    connection: Connection, topic: str, sink: str | None, guarantee: Guarantee, journals: tuple[Path, ...]
) -> AuditRequest:
    """What is to be audited where no pipeline file says it."""
    from fencepost.audit.request import AuditRequest, sink_named
    from fencepost.kafka.names import require_topic

    require_topic(topic)
    where = sink_named(sink, local_dsn) if sink is not None else None
    return AuditRequest(guarantee, connection.kafka_settings(), topic, where, journals=journals)


def _audit_once(
    request: AuditRequest, wait: float | None, report: Path | None, most: int, output: OutputFormat
) -> Audit:
    from fencepost.audit.audit import audit as run_audit

    found = run_audit(request, wait)
    if report is not None:
        from fencepost.audit.page import write_page

        write_page(found, ", ".join(request.topics), report)
    _show(found, most, output)
    return found


def _keep(request: AuditRequest, found: Audit) -> None:
    """A pipeline's, for the page."""
    from fencepost.audit.kept import keep

    if request.pipeline is not None:
        _if_it_can(lambda: keep(found, *_whose(request)))


def _rounds(request: AuditRequest) -> Callable[[Audit], None]:
    """The same for a running audit."""
    from fencepost.audit.kept import KeptRounds

    if request.pipeline is None:
        return lambda _found: None
    rounds = KeptRounds(*_whose(request))
    return lambda found: _if_it_can(lambda: rounds.keep(found))


def _whose(request: AuditRequest) -> tuple[str, str, Sequence[str]]:
    return request.pipeline or "", request.kafka.get("bootstrap.servers", ""), request.topics


def _if_it_can(keep: Callable[[], object]) -> None:
    """That it cannot be kept does not change the verdict."""
    try:
        keep()
    except FencepostError as error:
        note(f"the audit is not kept for the page: {error}")


def _end_with(found: Audit) -> None:
    from fencepost.audit.compare import Verdict

    if found.verdict not in (Verdict.HOLDS, Verdict.PARTLY):
        raise typer.Exit(1 if found.verdict is Verdict.BROKEN else 5)


def _show(found: Audit, most: int, output: OutputFormat) -> None:
    if output is OutputFormat.JSON:
        emit_json(found.as_json(most))
        return
    for hop in found.hops:
        _say_counts(hop)
    _say_findings(found, most)
    _say_hops(found)
    if found.undecided:
        say(f"undecided: {found.undecided}")
    for one in found.not_checked:
        say(f"not checked: {one}")
    say(f"{found.guarantee}: {_words(found.verdict)}")


def _say_counts(hop: Hop) -> None:
    from fencepost.audit.findings import DOUBLED, LOST
    from fencepost.guarantee import Anomaly

    facts = hop.facts
    if "read" in facts:
        landed = facts["read"] - facts["filtered"] - facts["dead"] - hop.missing
        say(
            f"read {facts['read']:,} = landed {landed:,} + filtered {facts['filtered']:,} + dead {facts['dead']:,}"
            + (f" + lost {hop.missing:,}" if hop.missing else "")
        )
    elif "acked" in facts:
        outcomes = ", ".join(f"{word} {facts[word]:,}" for word in ("acked", "unknown", "refused", "aborted"))
        said = f"; {count(facts['ignored_lines'], 'line')} ignored" if facts["ignored_lines"] else ""
        say(f"journal: {outcomes}{said}; in the log {hop.landed:,}")
    if hop.name == "log to sink":
        lost, doubled = (sum(hop.totals[code] for code in codes) for codes in (LOST, DOUBLED))
        say(f"rows {hop.landed:,}: lost {lost:,}, doubled {doubled:,}, phantom {hop.totals[Anomaly.PHANTOM]:,}")
        _say_aside(facts)


def _say_aside(facts: dict[str, int]) -> None:
    for word, noun, text in (
        ("waiting", "offset", "beyond the position: not read yet"),
        ("ahead", "row", "beyond the position, left out"),
        ("earlier", "row", "of a topic of the same name that was deleted, left out"),
        ("older", "row", "older than the log, or of a topic that is no longer read, left out"),
        ("others", "row", "of other topics, left out"),
        ("compacted", "row", "of records that were compacted away, compared by number only"),
    ):
        if facts.get(word):
            say(f"{count(facts[word], noun)} {text}")


def _say_findings(found: Audit, most: int) -> None:
    from fencepost.guarantee import ALLOWED

    shown = found.findings[:most]
    for finding in shown:
        note = f"; {finding.note}" if finding.note else ""
        ruling = ALLOWED[finding.code].under(found.guarantee)
        events = f"{finding.events:,} events, each " if finding.events > 1 else ""
        where = f"{finding.where}: " if finding.where else ""
        say(f"  {finding.code}  {where}{events}{finding.times} instead of {finding.expected}{note} ({ruling})")
    cut = found.totals.total() - sum(finding.weight for finding in shown)
    if cut > 0:
        say(f"  ... {cut:,} more of {found.totals.total():,}; --most shows more")


def _say_hops(found: Audit) -> None:
    """Each hop by itself, where there is more to say than that everything holds."""
    from fencepost.audit.compare import Verdict

    judged = [hop for hop in found.hops if hop.declared]
    if len(judged) < 2 and found.verdict is Verdict.HOLDS and not any(hop.said for hop in found.hops):
        return
    for hop in found.hops:
        verdict = hop.verdict(found.guarantee)
        if verdict is not Verdict.UNJUDGED:
            say(f"{hop.name}: {_words(verdict)}" + (f": {hop.undecided}" if hop.undecided else ""))
        elif hop.said:
            say(f"{hop.name}: {', '.join(_said(hop))}; not judged, there is no journal to say what was sent")


def _said(hop: Hop) -> Iterator[str]:
    from fencepost.guarantee import Anomaly

    if hop.said[Anomaly.DOUBLED_IN_LOG]:
        often = "twice" if hop.facts["most_copies"] == 2 else f"up to {hop.facts['most_copies']:,} times"
        yield f"{count(hop.facts['repeated_ids'], 'id')} sent {often}"
    if hop.said[Anomaly.REORDERED_IN_LOG]:
        yield f"{count(hop.said[Anomaly.REORDERED_IN_LOG], 'event')} after others of the same key that were sent later"


def _words(verdict: Verdict) -> str:
    return "holds for what was checked" if verdict.value == "holds-in-part" else verdict.value


def _period(text: str) -> timedelta:
    from pydantic import TypeAdapter, ValidationError

    from fencepost.spec import Seconds

    try:
        period = TypeAdapter(Seconds).validate_python(text)
    except (ValidationError, OverflowError):
        period = timedelta()
    if period <= timedelta():
        raise Usage(f"--every {text}", "write a time such as 60s or 500ms")
    return period


def _go_on(request: AuditRequest, every: timedelta, output: OutputFormat) -> None:
    """Until Ctrl-C, or until the guarantee is broken."""
    from fencepost.audit.compare import Verdict
    from fencepost.audit.watch import watch

    for change in watch(request, every.total_seconds(), _rounds(request)):
        if output is OutputFormat.JSON:
            emit_json(change.as_json())
        else:
            say(change.line())
        if change.verdict is Verdict.BROKEN:
            raise typer.Exit(1)
