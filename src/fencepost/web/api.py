"""The JSON beside the pages: what they show, and what the commands say, by the same functions."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request
from pydantic import BaseModel, Field
from starlette.responses import Response

from fencepost.machine.plain_json import dumped
from fencepost.web.pages import events, groups, lab, messages, overview, pipelines, topics, transactions
from fencepost.web.state import State

JSON = "application/json"
LARGEST = 2**63 - 1


class AbortRequest(BaseModel):
    """Which transaction is meant."""

    topic: str = Field(max_length=249)
    partition: int | str
    start_offset: int | str


def add_api(app: FastAPI, state: State) -> None:
    def told(value: object) -> Response:
        return Response(dumped(value), media_type=JSON)

    @app.get("/api/overview", tags=["cluster"])
    def _overview() -> Response:
        """Brokers, controllers, topics in sum, and what needs attention."""
        return told(overview.overview_facts(state))

    @app.get("/api/health", tags=["cluster"])
    def _health() -> Response:
        """Is the server up? Asks the cluster nothing; says how often it was asked since the start."""
        return told({"up": True, "questions": state.answers.asked})

    @app.get("/api/topics", tags=["topics"])
    def _topics() -> Response:
        """Every topic with its partitions, leaders and in-sync sets."""
        return told(topics.topics_facts(state))

    @app.get("/api/topics/{topic}", tags=["topics"])
    def _topic(topic: str) -> Response:
        """One topic: offsets, settings, what weakens a guarantee, and who holds the last stable offset back."""
        return told(topics.topic_facts(state, topic))

    @app.get("/api/topics/{topic}/messages", tags=["messages"])
    def _messages(  # noqa: PLR0913, PLR0917 (each is a parameter of the address)
        request: Request,
        topic: str,
        partition: Annotated[str, Query(description="a number, or all")] = "all",
        start: Annotated[str, Query(alias="from", description="newest, oldest, offset, time or key")] = "newest",
        offset: Annotated[str, Query(description="with from=offset, and where a search by key begins")] = "0",
        time: Annotated[str, Query(description="with from=time: ISO 8601, in UTC or with a zone")] = "",
        key: Annotated[str, Query(description="with from=key")] = "",
        isolation: Annotated[str, Query(description="read_committed or read_uncommitted")] = "read_committed",
        n: Annotated[str, Query(description="most offsets, up to 500")] = "50",
    ) -> Response:
        """Records, each marked committed, aborted, open or control. Bounded in number, bytes and time."""
        del partition, start, offset, time, key, isolation, n  # they are read where the page reads them
        return told(messages.messages_facts(state, topic, dict(request.query_params)))

    @app.get("/api/topics/{topic}/messages/{partition}/{offset}", tags=["messages"])
    def _message(topic: str, partition: int, offset: int) -> Response:
        """What stands at one offset."""
        return told(messages.record_facts(state, topic, partition, min(max(offset, 0), LARGEST)))

    @app.get("/api/groups", tags=["groups"])
    def _groups() -> Response:
        """Every group with its lag: in records, without markers and aborted ones, up to the last stable offset."""
        return told(groups.groups_facts(state))

    @app.get("/api/group", tags=["groups"])
    def _group(name: str) -> Response:
        """One group: members, assignment, and the lag of each partition in records and in time."""
        return told(groups.group_facts(state, name))

    @app.get("/api/group/history", tags=["groups"])
    def _history(
        name: str, hours: Annotated[float, Query(gt=0, le=24)] = 1, measure: groups.Measure = groups.Measure.RECORDS
    ) -> Response:
        """Its lag over time, as far as this server, or another one of this user, has watched it."""
        return told(groups.history_facts(state, name, hours, measure))

    @app.get("/api/pipelines", tags=["pipelines"])
    def _pipelines() -> Response:
        """Every pipeline that the ledger or a group of its name tells of, with guarantee, lag, rate and last audit."""
        return told(pipelines.pipelines_facts(state))

    @app.get("/api/pipeline", tags=["pipelines"])
    def _pipeline(name: str) -> Response:
        """One pipeline: hop by hop, positions with owners and epochs, and its last audit."""
        return told(pipelines.pipeline_facts(state, name))

    @app.get("/api/pipeline/batches", tags=["pipelines"])
    def _batches(name: str) -> Response:
        """Its rows and dead letters by minute, of the last hour."""
        return told(pipelines.batches_facts(state, name))

    @app.get("/api/events", tags=["events"])
    def _events(
        request: Request,
        q: Annotated[str, Query(description="the id or the key")] = "",
        topic: Annotated[str, Query(description="all of it is read, within bounds")] = "",
        by: Annotated[str, Query(description="id or key")] = "id",
    ) -> Response:
        """One event's way: the journal, the log, and what each pipeline made of it."""
        del q, topic, by  # they are read where the page reads them
        return told(events.events_facts(state, dict(request.query_params)))

    @app.get("/api/lab", tags=["lab"])
    def _lab() -> Response:
        """The lab's runs on this machine, the newest first, each with its verdict."""
        return told(lab.lab_facts(state))

    @app.get("/api/lab/run", tags=["lab"])
    def _lab_run(name: str) -> Response:
        """One run: its verdict, and what happened, in order."""
        return told(lab.lab_run_facts(state, name))

    @app.get("/api/transactions", tags=["transactions"])
    def _transactions() -> Response:
        """Every transactional id, the open ones in full, and who holds which last stable offset back."""
        return told(transactions.transactions_facts(state))

    @app.get("/api/transactions/hanging", tags=["transactions"])
    def _hanging() -> Response:
        """Open transactions that no coordinator knows. All partitions are looked at, twice where there is a suspect."""
        return told(transactions.hanging_facts(state))

    @app.get("/api/transaction", tags=["transactions"])
    def _transaction(id: str) -> Response:  # noqa: A002 (as it stands in the address)
        """One transactional id."""
        return told(transactions.transaction_facts(state, id))

    @app.post("/api/transactions/abort", tags=["transactions"])
    def _abort(asked: AbortRequest) -> Response:
        """Abort one that hangs. Needs --allow-changes, the page's token and its origin."""
        return told(transactions.abort(state, asked.model_dump()))
