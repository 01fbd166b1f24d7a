"""A REST catalog of the tests' own: Iceberg's handlers of the protocol, as its reference server has them, over HTTP.

What they decide is Iceberg's own: which requirements a commit has, and what a conflict is. The tables are kept in a
catalog in PostgreSQL.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError

from fencepost.sinks.iceberg import catalog
from fencepost.sinks.iceberg.library import Library
from fencepost.sinks.iceberg.options import IcebergOptions

CODES = {
    "NoSuchTableException": 404,
    "NoSuchNamespaceException": 404,
    "AlreadyExistsException": 409,
    "CommitFailedException": 409,
    "BadRequestException": 400,
    "IllegalArgumentException": 400,
    "ValidationException": 400,
    "CommitStateUnknownException": 503,
}


class Handlers:
    """Of one catalog, in a JVM."""

    def __init__(self, library: Library) -> None:
        jvm = library.jvm
        self._catalog, self._iceberg = library._opened(), jvm.org.apache.iceberg
        jackson = self._iceberg.shaded.com.fasterxml.jackson
        self._mapper = jackson.databind.ObjectMapper()
        kebab = getattr(jackson.databind, "PropertyNamingStrategies$KebabCaseStrategy")
        self._mapper.setPropertyNamingStrategy(kebab())
        anybody = getattr(jackson.annotation, "JsonAutoDetect$Visibility").ANY
        self._mapper.setVisibility(jackson.annotation.PropertyAccessor.FIELD, anybody)
        self._mapper.configure(jackson.databind.DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, False)
        self._iceberg.rest.RESTSerializers.registerAll(self._mapper)
        self._forname = jvm.java.lang.Class.forName
        self._all = getattr(self._iceberg.rest, "RESTCatalogProperties$SnapshotMode").valueOf("ALL")

    def answer(self, method: str, path: list[str], body: str) -> Any:
        """JSON, or None for nothing. Raises Py4JJavaError; LookupError for what is no route here."""
        handlers = self._iceberg.rest.CatalogHandlers
        match method, path:
            case "GET", ["config"]:
                return {"defaults": {}, "overrides": {}}
            case "POST", ["namespaces", _, "tables", _, "metrics"]:
                return None
            case "POST", ["namespaces"]:
                told = handlers.createNamespace(self._catalog, self._read("CreateNamespaceRequest", body))
            case "GET" | "HEAD", ["namespaces", name]:
                told = handlers.loadNamespace(self._catalog, self._at(name, "x").namespace())
            case "POST", ["namespaces", name, "tables"]:
                make = handlers.stageTableCreate if json.loads(body).get("stage-create") else handlers.createTable
                asked = self._read("CreateTableRequest", body)
                told = make(self._catalog, self._at(name, "x").namespace(), asked)
            case "GET" | "HEAD", ["namespaces", name, "tables", table]:
                told = handlers.loadTable(self._catalog, self._at(name, table), self._all)
            case "POST", ["namespaces", name, "tables", table]:
                changes = self._read("UpdateTableRequest", body)
                told = handlers.updateTable(self._catalog, self._at(name, table), changes)
            case _:
                raise LookupError(f"{method} {path}")
        return json.loads(self._mapper.writeValueAsString(told))

    def _at(self, namespace: str, table: str) -> Any:
        return self._iceberg.catalog.TableIdentifier.parse(f"{namespace}.{table}")

    def _read(self, kind: str, body: str) -> Any:
        return self._mapper.readValue(body, self._forname(f"org.apache.iceberg.rest.requests.{kind}"))


def _handler(handlers: Handlers) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            path = [unquote(part) for part in urlsplit(self.path).path.removeprefix("/v1/").split("/")]
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            try:
                code, told = 200, handlers.answer(self.command, path, body)
            except Py4JJavaError as error:
                kind = str(error.java_exception.getClass().getSimpleName())
                code = CODES.get(kind, 500)
                told = {"error": {"message": str(error.java_exception.getMessage()), "type": kind, "code": code}}
            except LookupError as error:
                code, told = 404, {"error": {"message": str(error), "type": "NotFoundException", "code": 404}}
            text = json.dumps(told).encode() if told is not None and self.command != "HEAD" else b""
            self.send_response(code if text or code != 200 else 204)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST = do_HEAD = _serve  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    return Handler


@contextmanager
def rest_catalog(options: IcebergOptions) -> Iterator[str]:
    """Its address. `options`: of a table in the catalog behind it, which is made."""
    catalog.make(options)
    settings = catalog.library_settings(options, {})
    with (
        closing(Library(options.catalog, settings, catalog.jars_for(options))) as library,
        ThreadingHTTPServer(("127.0.0.1", 0), _handler(Handlers(library))) as server,
    ):
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)
