"""The application: pages, their live parts and the JSON beside them, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from importlib.resources import files
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from fencepost import __version__
from fencepost.errors import FencepostError, Unreachable, Usage
from fencepost.kafka.errors import Forbidden, Missing
from fencepost.machine.plain_json import dumped
from fencepost.web import rendering
from fencepost.web.api import JSON, LARGEST, add_api
from fencepost.web.background import Background, Chore
from fencepost.web.live import Streams
from fencepost.web.pages import events, groups, lab, messages, overview, pipelines, topics, transactions
from fencepost.web.pages.page import PLACES, Shown
from fencepost.web.safety import Guard, Safety
from fencepost.web.state import SEARCH, State
from fencepost.web.tables import Asked

_STATUS = ((Missing, 404), (Forbidden, 403), (Usage, 400), (Unreachable, 503))
REMEMBER_SECONDS = 10.0


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
        state.answers.close()
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
    add_api(app, state)
    return app


def _errors(app: FastAPI, web: Web) -> None:
    @app.exception_handler(FencepostError)
    def _ours(request: Request, error: FencepostError) -> Response:
        return web.wrong(request, error)

    @app.exception_handler(500)
    def _unforeseen(request: Request, error: Exception) -> Response:
        said = f"{type(error).__name__}: this was not foreseen"
        return web.wrong(request, FencepostError(said, "please report it, with what the server wrote to its terminal"))

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
        "/lab": partial(lab.lab, state),
        "/lab/run": partial(lab.lab_run, state),
        "/transactions": partial(transactions.transactions, state),
        "/transaction": partial(transactions.transaction, state),
    }
    for path, view in views.items():
        _view(app, web, path, partial(_plainly, view))
    of_topic: Mapping[str, Callable[[Request], Shown]] = {
        "/topics/{topic}": lambda one: topics.topic(state, _asked(one), _topic(one)),
        "/topics/{topic}/messages": lambda one: messages.messages(state, _asked(one), _topic(one)),
        "/topics/{topic}/records/{partition}/{offset}": lambda one: messages.record(
            state, _asked(one), _topic(one), *_place(one)
        ),
    }
    for path, look in of_topic.items():
        _view(app, web, path, look)


def _topic(request: Request) -> str:
    return str(request.path_params["topic"])


def _place(request: Request) -> tuple[int, int]:
    return _whole(request, "partition"), min(_whole(request, "offset"), LARGEST)


def _whole(request: Request, name: str) -> int:
    given = str(request.path_params[name])
    if not (given.isascii() and given.isdecimal() and len(given) < 20):
        raise Missing(f"there is no {name} {given[:40]!r}", "give a whole number that is not negative")
    return int(given)


def _plainly(view: Callable[[Asked], Shown], request: Request) -> Shown:
    return view(_asked(request))


def _view(app: FastAPI, web: Web, path: str, look: Callable[[Request], Shown]) -> None:
    """As a page, and its live part."""

    def page(request: Request) -> Response:
        return web.page(request, lambda: look(request))

    async def live(request: Request) -> Response:
        return web.live(request, lambda: look(request))

    app.add_api_route(path, page, methods=["GET", "HEAD"], include_in_schema=False)
    app.add_api_route(f"/live{path}", live, methods=["GET"], include_in_schema=False)


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
