"""The table's log, as deltalake opens it: commits by version, and commits of ours that land on a given version only.

deltalake is not what writes the rows: Spark is. So what one wrote the other must be able to read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fencepost.errors import Unknown, Unreachable, Usage
from fencepost.sinks.delta.note import Note, app_id, from_json, to_json

if TYPE_CHECKING:
    import pyarrow.fs as arrow_fs
    from deltalake import DeltaTable

# that leave other rows behind than those which were added to the table's own
REPLACING = {"RESTORE", "TRUNCATE", "CLONE"}


@dataclass(frozen=True)
class Entry:
    """One commit of the log."""

    version: int
    info: Mapping[str, Any]  # Delta's commitInfo; empty where a writer left none
    note: Note | None  # where it is one of ours
    adds: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)  # the files that it added

    @property
    def operation(self) -> str:
        return str(self.info.get("operation", "an unnamed operation"))

    @property
    def at(self) -> datetime:
        return datetime.fromtimestamp(int(self.info.get("timestamp", 0)) / 1000, UTC)

    @property
    def replaces(self) -> bool:
        """Are the table's rows others now than those that its writers added?"""
        mode = str((self.info.get("operationParameters") or {}).get("mode", "")).lower()
        replaced = "REPLACE" in self.operation or self.operation in REPLACING
        return self.note is None and (replaced or mode == "overwrite")

    @property
    def rows(self) -> int:
        """That it wrote, in its own words."""
        metrics = self.info.get("operationMetrics") or {}
        merged = [int(metrics[name]) for name in ("numTargetRowsInserted", "numTargetRowsUpdated") if name in metrics]
        return sum(merged) if merged else int(metrics.get("numOutputRows", 0))


class Log:
    """Of one table. One thread at a time."""

    def __init__(self, path: str, storage: Mapping[str, str]) -> None:
        self._path = path
        self._storage = dict(storage)
        self._latest: int | None = None
        self.tables = 0  # that were at this path before, as far as we saw
        self._entries: dict[int, Entry] = {}  # those that are read again and again
        self._opened: arrow_fs.FileSystem | None = None

    def table(self) -> DeltaTable | None:
        """As it is now; None where there is none."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError, TableNotFoundError

        with translated(f"open {self._path}"):
            try:
                return DeltaTable(uri_of(self._path), storage_options=self._storage or None)
            except TableNotFoundError:
                return None
            except DeltaError as error:
                self._require_one_table(error)
                raise

    def _require_one_table(self, error: Exception) -> None:
        """Raises Usage where sums of versions lie there that the log does not have: Spark writes them a little later,
        into whatever is in the folder by then.
        """
        import pyarrow.fs as arrow_fs

        found = self._files().get_file_info(arrow_fs.FileSelector("_delta_log", allow_not_found=True))
        names = [one.base_name.partition(".") for one in found]
        newest = max((int(version) for version, _, kind in names if kind == "json" and version.isdigit()), default=-1)
        left = [version for version, _, kind in names if kind == "crc" and version.isdigit() and int(version) > newest]
        if left:
            raise Usage(
                f"{self._path}/_delta_log/{min(left)}.crc is of a table that was there before",
                f"stop who writes to it, and remove every .crc above version {newest}",
            ) from error

    def latest(self) -> int | None:
        """The newest version; None where there is no table. What was read before is forgotten if it is another one."""
        if self._latest is not None and self._parsed(self._latest) != self._entries.get(self._latest):
            self._latest = None
            self._entries.clear()
            self.tables += 1
        if self._latest is None:
            table = self.table()
            self._latest = None if table is None else table.version()
            if self._latest is not None:
                self._read(self._latest)
        while self._latest is not None and self._read(self._latest + 1) is not None:
            self._latest += 1
        return self._latest

    def back(self, newest: int, oldest: int = 0) -> Iterator[Entry]:
        """From this version down, as long as the log has them: older ones are cleaned up some day."""
        for version in range(newest, oldest - 1, -1):
            entry = self._read(version)
            if entry is None:
                return
            yield entry

    def _read(self, version: int) -> Entry | None:
        if version not in self._entries:
            entry = self._parsed(version)
            if entry is None:
                return None
            if len(self._entries) > 100:
                self._entries = {at: one for at, one in self._entries.items() if at == self._latest}
            self._entries[version] = entry
        return self._entries[version]

    def whole(self, version: int) -> Entry | None:
        """With the files that it added."""
        return self._parsed(version, adds=True)

    def _parsed(self, version: int, adds: bool = False) -> Entry | None:
        with translated(f"read version {version} of {self._path}"):
            try:
                text = self._files().open_input_file(f"_delta_log/{version:020}.json").read()
            except FileNotFoundError:
                return None
        info: Mapping[str, Any] = {}
        added = []
        for line in text.splitlines():
            if line.startswith(b'{"commitInfo"') or (adds and line.startswith(b'{"add"')):
                action = json.loads(line)
                info = action.get("commitInfo", info)
                added += [action["add"]] if "add" in action else []
        return Entry(version, info, from_json(info.get("userMetadata")), tuple(added))

    def _files(self) -> arrow_fs.FileSystem:
        if self._opened is None:
            import pyarrow.fs as arrow_fs
            from deltalake.fs import DeltaStorageHandler

            self._opened = arrow_fs.PyFileSystem(DeltaStorageHandler(uri_of(self._path), self._storage))
        return self._opened

    def commit(self, version: int, note: Note) -> bool:
        """A commit without rows as exactly this version. False where somebody else's is there.

        Raises Unknown where nobody can say.
        """
        from deltalake import CommitProperties, PostCommitHookProperties, Transaction
        from deltalake.exceptions import CommitFailedError, DeltaError

        table = self.table()
        if table is None or table.version() != version - 1:
            return False
        properties = CommitProperties(
            {"userMetadata": to_json(note)}, 0, [Transaction(app_id(note.pipeline), note.version)]
        )
        hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
        trouble: Exception | None = None
        try:
            table.create_write_transaction(
                [],
                "append",
                table.schema(),
                partition_by=table.metadata().partition_columns or None,
                commit_properties=properties,
                post_commithook_properties=hooks,
            )
        except CommitFailedError as error:
            trouble = error
        except (DeltaError, OSError) as error:
            if self._read(version) is None:
                raise Unknown(f"{self._path}: a commit was not answered: {error}") from error
            trouble = error
        landed = self._read(version)
        if landed is None:
            raise Unknown(f"{self._path}: version {version} is not there after its commit") from trouble
        return landed.note is not None and landed.note.attempt == note.attempt

    def last_transaction(self, pipeline: str) -> int | None:
        """What the table itself remembers of the pipeline, when the log was cleaned up too."""
        table = self.table()
        return None if table is None else table.transaction_version(app_id(pipeline))


def uri_of(path: str) -> str:
    """As deltalake takes it."""
    return path if "://" in path else f"file://{quote(path)}"


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """deltalake's errors as ours. Nothing is written."""
    from deltalake.exceptions import DeltaError, DeltaProtocolError

    try:
        yield
    except DeltaProtocolError as error:
        raise Usage(f"cannot {doing}: {_line(error)}", "use a table without that feature") from error
    except (DeltaError, OSError) as error:
        raise Unreachable(f"cannot {doing}: {_line(error)}") from error


def _line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
