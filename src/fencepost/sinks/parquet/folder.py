"""The folder as pyarrow reads it: no writer uses that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fencepost.errors import Unreachable, Usage
from fencepost.sinks.parquet.options import ParquetOptions

if TYPE_CHECKING:
    import pyarrow.dataset as ds
    import pyarrow.fs as arrow_fs


@dataclass(frozen=True)
class Folder:
    """Files that a reader sees: none whose name, or whose folder's name, begins with _ or a dot."""

    options: ParquetOptions

    def holds_files(self) -> bool:
        return self._dataset() is not None

    def schema(self) -> pa.Schema | None:
        """Of one of the files, with the columns that are folders; None where there is no file."""
        found = self._dataset()
        return None if found is None else found.schema

    def read(self, columns: tuple[str, ...]) -> pa.Table:
        with self._answering():
            return self.require().to_table(columns=list(columns))

    def require(self) -> ds.FileSystemDataset:
        """Raises Usage where there is no file."""
        found = self._dataset()
        if found is None:
            raise Usage(f"there are no Parquet files in {self.options.path!r}", "has the pipeline run?")
        return found

    def last_rows(self, most: int) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Of the files that were written last: rows have no order of their own."""
        found = self.require()
        names: list[str] = list(found.schema.names)
        rows: list[tuple[Any, ...]] = []
        with self._answering():
            written = {info.path: info.mtime_ns for info in found.filesystem.get_file_info(found.files)}
            parts = sorted(found.get_fragments(), key=lambda part: written.get(part.path) or 0, reverse=True)
            for part in parts:
                if len(rows) >= most:
                    break
                table = part.to_table(schema=found.schema)
                rows = [
                    *(
                        tuple(row[name] for name in names)
                        for row in table.slice(max(table.num_rows - most, 0)).to_pylist()
                    ),
                    *rows,
                ]
        return names, rows[-most:]

    def _dataset(self) -> ds.FileSystemDataset | None:
        """None where there is no file."""
        import pyarrow.dataset as ds
        import pyarrow.fs as arrow_fs

        with self._answering():
            system, path = _located(self.options.path)
            if system.get_file_info(path).type is not arrow_fs.FileType.Directory:
                return None
            found = system.get_file_info(arrow_fs.FileSelector(path, recursive=True))
            files = sorted(one.path for one in found if one.is_file and _is_seen(one.path, path))
            folders = pa.schema([(name, pa.string()) for name in self.options.partition_by])
            how = ds.partitioning(folders, flavor="hive") if self.options.partition_by else None
            if not files:
                return None
            return ds.dataset(files, filesystem=system, format="parquet", partitioning=how, partition_base_dir=path)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except pa.ArrowInvalid as error:  # before OSError: pyarrow's own classes are both
            raise Usage(f"a file in {self.options.path!r} is no whole Parquet file: {_line(error)}") from error
        except (OSError, pa.ArrowException) as error:
            raise Unreachable(f"{self.options.path!r} cannot be read: {_line(error)}") from error


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _is_seen(file: str, folder: str) -> bool:
    """By readers: files of other kinds, and names that begin with _ or a dot, are none of theirs."""
    inside = file.removeprefix(folder).strip("/").split("/")
    return file.endswith(".parquet") and not any(name.startswith(("_", ".")) for name in inside)


def _located(path: str) -> tuple[arrow_fs.FileSystem, str]:
    import pyarrow.fs as arrow_fs

    if path.startswith("/"):
        return arrow_fs.LocalFileSystem(), path
    system, inside = arrow_fs.FileSystem.from_uri(path.replace("s3a://", "s3://", 1))
    return system, inside
