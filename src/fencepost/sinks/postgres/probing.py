"""Trying rows on a table by the thousand, in a transaction that is given up: until then it keeps what it takes."""

from __future__ import annotations

import pyarrow as pa
from psycopg import generators

from fencepost.errors import Refused
from fencepost.sinks.postgres.binary_copy import Copier, encoder_for
from fencepost.sinks.postgres.constraints import check_deferred

_BEGIN, _KEEP, _UNDO = b"SAVEPOINT probe;", b"RELEASE probe; SAVEPOINT probe;", b"ROLLBACK TO probe;"


class Prober(Copier):
    """Tries parts of the rows that a copier was refused, each by one COPY.

    What becomes of a try is said in the message that begins the next. By COPY, as the rows will come in the end: INSERT
    heeds rules, and refuses identities.
    """

    def __init__(self, copier: Copier, rows: pa.RecordBatch) -> None:
        super().__init__(copier._connection, copier._table, copier._columns)
        self._copy, self.late = self._statement, copier.late
        self._before = _BEGIN
        self._rows = rows
        self._whole = self._cast_or_none(rows)

    def _cast_or_none(self, rows: pa.RecordBatch) -> pa.RecordBatch | None:
        """Once for all tries, unless a value cannot be: then each try finds out by itself."""
        try:
            return self._cast(rows)
        except (Refused, pa.ArrowException):
            return None

    def hold_types(self) -> None:
        """A COPY of no row: from now on the table's types stay as they are. Refused where they changed before."""
        self._try(0, 0)
        self.require_types()

    def refusal(self, start: int, end: int) -> Refused | None:
        """Why the table does not take these rows; None when it does, and then it keeps them."""
        try:
            self._try(start, end)
        except Refused as refusal:
            if not refusal.about_values:
                raise
            return refusal
        return None

    def _try(self, start: int, end: int) -> None:
        part = self._rows.slice(start, end - start)
        with self._taking([part]):
            cast = self._cast(part) if self._whole is None else self._whole.slice(start, end - start)
            encoder = encoder_for(cast.schema, self._columns)
            data = [encoder.write_header(), encoder.write_batch(cast), encoder.finish()]
            self._statement, self._before = self._before + self._copy, _UNDO
            self._begin()
            self._put(b"".join(data))
            self._connection.wait(generators.copy_end(self._connection.pgconn, None))
            if self.late:
                check_deferred(self._connection, trying=True)
            self._before = _KEEP
