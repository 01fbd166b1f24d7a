"""PostgreSQL as an atomic sink: binary COPY and the compare-and-set of the position in one transaction."""

from fencepost.sinks.postgres.store import PostgresSettings, PostgresStore

__all__ = ["PostgresSettings", "PostgresStore"]
