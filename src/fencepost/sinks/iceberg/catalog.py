"""The catalog, in Spark's words for the session and in pyiceberg's for whoever only reads."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any, LiteralString
from urllib.parse import quote

from psycopg import Connection, sql

from fencepost.errors import Unreachable, Usage
from fencepost.sinks.iceberg.options import STAGE, IcebergOptions
from fencepost.sinks.postgres.connection import connect, translated
from fencepost.sinks.postgres.jdbc import jdbc

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from fencepost.machine.ivy import Configuration

SPARK_CATALOG = "org.apache.iceberg.spark.SparkCatalog"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
APPLICATION = "fencepost-catalog"  # in pg_stat_activity
# variables that Iceberg's own client reads by itself, as both do keys; of two for the same the later one counts
_S3_PLACES = {
    "AWS_DEFAULT_REGION": "s3.region",
    "AWS_REGION": "s3.region",
    "AWS_ENDPOINT_URL": "s3.endpoint",
    "AWS_ENDPOINT_URL_S3": "s3.endpoint",
}
_READ_ALIKE = {"rest", "hive", "glue"}  # pyiceberg takes Iceberg's own names of their settings


def on_s3(options: IcebergOptions) -> bool:
    """Are its files in S3, or in what speaks as it does? Then keys, region and endpoint are the environment's."""
    return options.warehouse is not None and options.warehouse.startswith(("s3://", "s3a://"))


def jars_for(options: IcebergOptions) -> tuple[Configuration, ...]:
    """What a JVM needs besides Spark, for this catalog."""
    return ("iceberg-spark", "iceberg-s3") if on_s3(options) else ("iceberg-spark",)


def spark_settings(options: IcebergOptions, spark: Mapping[str, str]) -> dict[str, str]:
    """What the session must have besides the user's own. Raises Usage for a catalog that cannot be used."""
    ours = f"spark.sql.catalog.{options.catalog}"
    plain = {"spark.sql.extensions": EXTENSIONS, f"spark.sql.catalog.{STAGE}": _class("SparkRewriteTableCatalog")}
    if options.warehouse is None:
        _require_declared(options, spark)
        return {**plain, f"{ours}.cache-enabled": "false"}
    if settings_of(options, spark):
        raise Usage(
            f"catalog {options.catalog!r} is declared twice: by sink.options.warehouse, and under spark by {ours}",
            "remove one of them",
        )
    settings = library_settings(options, spark)
    return {**plain, ours: SPARK_CATALOG, **{f"{ours}.{name}": value for name, value in settings.items()}}


def library_settings(options: IcebergOptions, spark: Mapping[str, str]) -> dict[str, str]:
    """Of the catalog, in Iceberg's own words."""
    if options.warehouse is None:
        return {name: value for name, value in _require_declared(options, spark).items() if name != "class"}
    url, properties = jdbc(_dsn(options))
    connection = {name: value for name, value in properties.items() if name != "driver"}
    connection |= {"ApplicationName": APPLICATION, "currentSchema": _schema(options)}
    return {
        "type": "jdbc",
        "uri": url,
        "warehouse": options.warehouse,
        **({"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"} if on_s3(options) else {}),
        "jdbc.schema-version": "V1",
        "cache-enabled": "false",
        **{f"jdbc.{name}": value for name, value in connection.items()},
    }


def settings_of(options: IcebergOptions, spark: Mapping[str, str]) -> dict[str, str]:
    """Of the catalog, as the user declared it for Spark, without Spark's prefix."""
    ours = f"spark.sql.catalog.{options.catalog}"
    found = {name.removeprefix(f"{ours}."): value for name, value in spark.items() if name.startswith(f"{ours}.")}
    return {**({"class": spark[ours]} if ours in spark else {}), **found}


def make(options: IcebergOptions) -> None:
    """The catalog itself, where it is kept in PostgreSQL: its tables, in a schema with its name.

    A schema that is there is enough: to make one needs a right on the database, even with IF NOT EXISTS. The tables are
    pyiceberg's: Iceberg's own library takes those of another schema for them.
    """
    if options.warehouse is None or _is_made(options):
        return
    with closing(connect(_dsn(options))) as connection, translated("make the catalog's schema"):
        if not _has(connection, "pg_catalog.to_regnamespace", _schema(options)):
            connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(sql.Identifier(options.catalog)))
    with answering(options):
        _in_postgres(options, init_catalog_tables="true").close()


class Reader:
    """The tables of a catalog as they are now, for reading. Its connections are kept until it is closed."""

    def __init__(self, options: IcebergOptions, spark: Mapping[str, str]) -> None:
        self._options, self._spark = options, spark
        self._opened: Catalog | None = None

    def table(self, name: str | None = None) -> Table | None:
        """The sink's own, or another one; None where there is none. Raises Unreachable. Nothing is made."""
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

        with answering(self._options):
            if self._opened is None:
                self._opened = _catalog(self._options, self._spark)
            try:
                return self._opened.load_table(name or self._options.table) if self._opened else None
            except (NoSuchTableError, NoSuchNamespaceError):
                return None

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
        self._opened = None


def load(options: IcebergOptions, spark: Mapping[str, str], name: str | None = None) -> Table | None:
    """The table, or another one, as it is now, for who looks once."""
    with closing(Reader(options, spark)) as reader:
        return reader.table(name)


def _catalog(options: IcebergOptions, spark: Mapping[str, str]) -> Catalog | None:
    """None where a catalog in PostgreSQL was not made yet."""
    from pyiceberg.catalog import load_catalog

    if options.warehouse is not None:
        return _in_postgres(options, init_catalog_tables="false") if _is_made(options) else None
    declared = _require_declared(options, spark)
    if declared["type"] not in _READ_ALIKE:
        raise Usage(
            f"catalog {options.catalog!r} is of type {declared['type']}, whose positions cannot be read without Spark",
            f"use one of type {', '.join(sorted(_READ_ALIKE))}, or one in PostgreSQL: give sink.options.warehouse",
        )
    left_out = ("class", "cache-enabled")
    return load_catalog(options.catalog, **{name: value for name, value in declared.items() if name not in left_out})


def _in_postgres(options: IcebergOptions, **settings: str) -> Catalog:
    from pyiceberg.catalog.sql import SqlCatalog

    settings |= {"warehouse": str(options.warehouse), "schema_version": "v1", "pool_pre_ping": "true"}
    settings |= {name: os.environ[variable] for variable, name in _S3_PLACES.items() if variable in os.environ}
    return SqlCatalog(options.catalog, uri=_sqlalchemy(options), **settings)


def _require_declared(options: IcebergOptions, spark: Mapping[str, str]) -> dict[str, str]:
    declared = settings_of(options, spark)
    ours = f"spark.sql.catalog.{options.catalog}"
    if declared.get("class") != SPARK_CATALOG or "type" not in declared:
        raise Usage(
            f"catalog {options.catalog!r} is not declared: {ours}: {SPARK_CATALOG} and {ours}.type are needed",
            "declare it under spark, or give sink.options.warehouse: then it is kept in PostgreSQL",
        )
    if declared["type"] == "hadoop":
        raise Usage(
            f"catalog {options.catalog!r} is of type hadoop: on a plain file system two commits of a race can both win",
            "use a catalog that compares and sets (rest, hive, glue), or give sink.options.warehouse: PostgreSQL does",
        )
    return declared


def _sqlalchemy(options: IcebergOptions) -> str:
    """The same database for SQLAlchemy, by psycopg."""
    url, properties = jdbc(_dsn(options))
    where = url.removeprefix("jdbc:postgresql://")
    user, password = quote(properties["user"], safe=""), quote(properties["password"], safe="")
    path = quote(f"-csearch_path={_schema(options)}", safe="")
    return f"postgresql+psycopg://{user}:{password}@{where}?options={path}&application_name={APPLICATION}"


def _is_made(options: IcebergOptions) -> bool:
    """Is there a catalog in PostgreSQL?"""
    with closing(connect(_dsn(options))) as connection, translated("look for the catalog"):
        return _has(connection, "pg_catalog.to_regclass", f"{_schema(options)}.iceberg_tables")


def _has(connection: Connection[Any], function: LiteralString, name: str) -> bool:
    found = connection.execute(f"SELECT {function}(%s) IS NOT NULL", (name,)).fetchone()
    return bool(found and found[0])


def _schema(options: IcebergOptions) -> str:
    """In SQL: quoted, since PostgreSQL would fold upper case."""
    return f'"{options.catalog}"'


def _dsn(options: IcebergOptions) -> str:
    if options.dsn is None:
        raise Usage("sink.options.dsn is not set", "set it, or start the local stack with `fencepost up`")
    return options.dsn


@contextmanager
def answering(options: IcebergOptions) -> Iterator[None]:
    from requests.exceptions import RequestException
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, RequestException, OSError) as error:
        raise Unreachable(f"catalog {options.catalog!r} does not answer: {type(error).__name__}") from error


def _class(name: str) -> str:
    return f"org.apache.iceberg.spark.{name}"
