"""A batch's rows into the folder: Spark's own writer fills a stage, whose files are then renamed into the folder.

A stage is inside the folder, in one whose name begins with _, which readers skip. Whatever fails before the first
rename leaves nothing that a reader sees: Spark's own commit, straight into the folder, could not tell that.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from py4j.protocol import Py4JJavaError

from fencepost.errors import Refused, Unknown
from fencepost.sinks.lake.folders import apart
from fencepost.sinks.parquet.options import ParquetOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STAGES = "_fencepost"


class Stage:
    """One try of one batch."""

    def __init__(self, spark: SparkSession, options: ParquetOptions, pipeline: str, epoch: int) -> None:
        """`epoch`: of the owner: stages of those before it, and of itself, are left from tries that are over."""
        jvm: Any = spark.sparkContext._jvm
        self._options = options
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()
        self._path = jvm.org.apache.hadoop.fs.Path
        self._reader = jvm.org.apache.parquet.hadoop
        # whatever Spark's default file system is: who reads without Spark does not know it
        place = f"file://{options.path}" if options.path.startswith("/") else options.path
        self._folder = self._path(place)
        self._system = self._folder.getFileSystem(self._configuration)
        self._stages = self._path(f"{place}/{STAGES}/{pipeline}")
        self._own = self._path(f"{place}/{STAGES}/{pipeline}/{epoch}-{uuid4().hex}")
        self._epoch = epoch

    def fill(self, rows: DataFrame) -> int:
        """Every row, unseen by readers. Says how many they are. What Spark raises is left as it is."""
        self._clear()
        writer = apart(rows, self._options.partition_by).write.mode("append").format("parquet")
        if self._options.partition_by:
            writer = writer.partitionBy(*self._options.partition_by)
        writer.save(self._own.toString())
        with self._told("read back"):
            return sum(self._count(file) for file in self._files())

    def publish(self) -> None:
        """Readers see the files, one after the other. Raises Unknown where some may be seen, and not all."""
        moved = 0
        try:
            for file in self._files():
                inside = file.toString().removeprefix(self._qualified(self._own)).lstrip("/")
                to = self._path(self._folder, inside)
                self._system.mkdirs(to.getParent())
                moved += 1
                if not self._system.rename(file, to):
                    raise Unknown(f"{self._options.path!r}: {inside} could not be renamed into the folder")
        except Py4JJavaError as error:
            told = f"{self._options.path!r}: {_said(error)}"
            raise (Unknown if moved else Refused)(f"{told}, while files were renamed into the folder") from error

    def discard(self) -> None:
        """Nothing of it is needed any more."""
        with self._told("cleared"):
            self._system.delete(self._own, True)

    def _clear(self) -> None:
        with self._told("cleared"):
            if not self._system.exists(self._stages):
                return
            for found in self._system.listStatus(self._stages):
                epoch = found.getPath().getName().partition("-")[0]
                if epoch.isdigit() and int(epoch) <= self._epoch:
                    self._system.delete(found.getPath(), True)

    def _files(self) -> list[Any]:
        found = self._system.listFiles(self._own, True)
        files = []
        while found.hasNext():
            path = found.next().getPath()
            if not path.getName().startswith(("_", ".")):
                files.append(path)
        return files

    def _count(self, file: Any) -> int:
        source = self._reader.util.HadoopInputFile.fromPath(file, self._configuration)
        reader = self._reader.ParquetFileReader.open(source)
        try:
            return int(reader.getRecordCount())
        finally:
            reader.close()

    def _qualified(self, path: Any) -> str:
        return str(self._system.makeQualified(path).toString())

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Before anything is seen: nothing is written."""
        try:
            yield
        except Py4JJavaError as error:
            raise Refused(f"{self._options.path!r} could not be {what}: {_said(error)}") from error


def _said(error: Py4JJavaError) -> str:
    return str(error.java_exception.getClass().getSimpleName())
