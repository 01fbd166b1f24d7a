"""The application: pages, their live parts and the JSON beside them, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from fencepost import __version__
from fencepost.errors import FencepostError, Unreachable, Usage
from fencepost.kafka.errors import Forbidden, Missing
from fencepost.machine.plain_json import dumped
from fencepost.web import rendering
from fencepost.web.background import Background, Chore
from fencepost.web.live import Streams
from fencepost.web.pages import events, groups, messages, overview, pipelines, topics, transactions
from fencepost.web.pages.page import PLACES, Shown
from fencepost.web.safety import Guard, Safety
from fencepost.web.state import SEARCH, State
from fencepost.web.tables import Asked

_STATUS = ((Missing, 404), (Forbidden, 403), (Usage, 400), (Unreachable, 503))
JSON = "application/json"
LARGEST = 2**63 - 1
REMEMBER_SECONDS = 10.0


class AbortRequest(BaseModel):
    """Which transaction is meant."""

    topic: str = Field(max_length=249)
    partition: int | str
    start_offset: int | str


class Web:
    """One cluster's pages."""

    def __init__(self, state: State, safety: Safety, streams: Streams) -> None:
        self.state = state
        self.safety = safety
        self.streams = streams

    def context(self, request: Request, shown: Shown) -> dict[str, Any]:
        where = request.url.path
        return {
            **shown.context,
            "places": PLACES,
            "path": where,
            "query": request.url.query,
            "servers": self.state.connections.kafka.get("bootstrap.servers", ""),
            "changes": self.safety.changes,
            "token": self.safety.token,
            "version": __version__,
        }

    def page(self, request: Request, look: Callable[[], Shown]) -> Response:
        shown = look()
        return HTMLResponse(rendering.page(shown.template, self.context(request, shown)))

    def live(self, request: Request, look: Callable[[], Shown]) -> Response:
        return self.streams.of(partial(self._part, request, look))

    def _part(self, request: Request, look: Callable[[], Shown]) -> str:
        try:
            shown = look()
            return rendering.live_part(shown.template, self.context(request, shown))
        except FencepostError as error:
            return rendering.page("trouble.html", {"error": error})

    def wrong(self, request: Request, error: FencepostError) -> Response:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        if request.url.path.startswith("/api/"):
            told = {"error": type(error).__name__, "message": error.message, "remedy": error.remedy}
            return Response(dumped(told), status, media_type=JSON)
        shown = Shown("error.html", {"error": error, "status": status})
        return HTMLResponse(rendering.page(shown.template, self.context(request, shown)), status)


def application(state: State, safety: Safety, streams: Streams) -> FastAPI:
    web = Web(state, safety, streams)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        with Background([Chore(SEARCH, state.find_hanging), Chore(REMEMBER_SECONDS, state.remember)]):
            yield
        state.history.close()
        state.connections.close()

    app = FastAPI(
        title="Fencepost", version=__version__, docs_url=None, redoc_url=None, openapi_url="/api/openapi.json",
        lifespan=lifespan, description="What the page shows, as JSON; the same as the commands say.",
    )  # fmt: skip
    app.add_middleware(Guard, safety=safety)
    app.mount("/static", StaticFiles(packages=[("fencepost.web", "static")]), name="static")
    _errors(app, web)
    _pages(app, web)
    _api(app, state)
    return app


def _errors(app: FastAPI, web: Web) -> None:
    @app.exception_handler(FencepostError)
    def _ours(request: Request, error: FencepostError) -> Response:
        return web.wrong(request, error)

    @app.exception_handler(RequestValidationError)
    def _of_fastapi(request: Request, error: RequestValidationError) -> Response:
        return web.wrong(request, _invalid(error))

    @app.exception_handler(HTTPException)
    def _of_starlette(request: Request, error: HTTPException) -> Response:
        return web.wrong(request, _absent(request, error))


def _pages(app: FastAPI, web: Web) -> None:
    state = web.state
    views: Mapping[str, Callable[[Asked], Shown]] = {
        "/": partial(overview.overview, state),
        "/topics": partial(topics.topics, state),
        "/groups": partial(groups.groups, state),
        "/group": partial(groups.group, state),
        "/pipelines": partial(pipelines.pipelines, state),
        "/pipeline": partial(pipelines.pipeline, state),
        "/events": partial(events.events, state),
        "/transactions": partial(transactions.transactions, state),
        "/transaction": partial(transactions.transaction, state),
    }
    for path, view in views.items():
        _view(app, web, path, partial(_plainly, view))
    of_topic: Mapping[str, Callable[[Request], Shown]] = {
        "/topics/{topic}": lambda one: topics.topic(state, _asked(one), _topic(one)),
        "/topics/{topic}/messages": lambda one: messages.messages(state, _asked(one), _topic(one)),
        "/topics/{topic}/records/{partition:int}/{offset:int}": lambda one: messages.record(
            state, _asked(one), _topic(one), *_place(one)
        ),
    }
    for path, look in of_topic.items():
        _view(app, web, path, look)


def _topic(request: Request) -> str:
    return str(request.path_params["topic"])


def _place(request: Request) -> tuple[int, int]:
    return int(request.path_params["partition"]), min(int(request.path_params["offset"]), LARGEST)


def _plainly(view: Callable[[Asked], Shown], request: Request) -> Shown:
    return view(_asked(request))


def _view(app: FastAPI, web: Web, path: str, look: Callable[[Request], Shown]) -> None:
    """As a page, and its live part."""

    def page(request: Request) -> Response:
        return web.page(request, lambda: look(request))

    async def live(request: Request) -> Response:
        return web.live(request, lambda: look(request))

    app.add_api_route(path, page, methods=["GET"], include_in_schema=False)
    app.add_api_route(f"/live{path}", live, methods=["GET"], include_in_schema=False)


def _api(app: FastAPI, state: State) -> None:
    def told(value: object) -> Response:
        return Response(dumped(value), media_type=JSON)

    @app.get("/api/overview", tags=["cluster"])
    def _overview() -> Response:
        """Brokers, controllers, topics in sum, and what needs attention."""
        return told(overview.overview_facts(state))

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
    def _history(name: str, hours: Annotated[float, Query(gt=0, le=24)] = 1) -> Response:
        """Its lag over time, as far as this server, or another one of this user, has watched it."""
        return told(groups.history_facts(state, name, hours))

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


def _asked(request: Request) -> Asked:
    return Asked(dict(request.query_params))


def _invalid(error: RequestValidationError) -> FencepostError:
    first = error.errors()[0]
    return Usage(f"{first['loc'][-1]}: {first['msg']}", "correct the address")


def _absent(request: Request, error: HTTPException) -> FencepostError:
    if error.status_code == 404:
        return Missing(f"there is no page {request.url.path}", "see the overview")
    return Usage(str(error.detail), "correct the request")


def static_names() -> list[str]:
    """The files of ours that a browser may load."""
    return sorted(one.name for one in files("fencepost.web").joinpath("static").iterdir() if one.is_file())
