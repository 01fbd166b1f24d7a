"""Iceberg's own library, in a JVM: in that of the Spark session, or in a small one of its own where there is none.

It makes the commits: pyiceberg's own commit is repeated against whatever the table is by then, which is no fence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import GatewayParameters, JavaClass, JavaGateway, JavaMember, launch_gateway
from py4j.protocol import STATIC_PREFIX, Py4JError, Py4JJavaError

from fencepost.errors import FencepostError, Unreachable, Usage
from fencepost.machine.jars import fetch
from fencepost.machine.java import find

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from fencepost.machine.ivy import Configuration

_SMALL = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.level=ERROR"]


class Library:
    """Opened when it is first needed."""

    def __init__(
        self,
        catalog: str,
        settings: Mapping[str, str],
        jars: Sequence[Configuration],
        session: SparkSession | None = None,
    ) -> None:
        """`settings`: of the catalog, in Iceberg's words. `jars`: of a JVM that is started for it."""
        self._name, self._settings, self._jars = catalog, settings, jars
        self._session = session
        self._gateway: JavaGateway | None = None
        self._catalog: Any = None

    def table(self, name: str) -> Any:
        """As it is now. Raises Usage where there is none, Unreachable where nobody answers."""
        try:
            identifier = self.jvm.org.apache.iceberg.catalog.TableIdentifier.parse(name)
            return self._opened().loadTable(identifier)
        except Py4JJavaError as error:
            if is_a(error, "NoSuchTableException", "NoSuchNamespaceException"):
                raise Usage(f"there is no table {name!r}", "has the pipeline run?") from error
            raise Unreachable(f"table {name!r} cannot be read: {said(error)}") from error

    @property
    def session(self) -> SparkSession:
        """That writes data files. Only a run has one."""
        if self._session is None:
            raise TypeError("rows are written by Spark, and there is no session")
        return self._session

    @property
    def jvm(self) -> Any:
        if self._session is not None:
            return self._session.sparkContext._jvm
        if self._gateway is None:
            self._gateway = _small_jvm(self._jars)
        return self._gateway.jvm

    def table_cache(self) -> Any:
        """The static `get()`: the class has another one, and py4j would choose between them."""
        gateway: Any = self.session.sparkContext._gateway
        return JavaMember(
            "get", None, f"{STATIC_PREFIX}org.apache.iceberg.spark.SparkTableCache", gateway._gateway_client
        )()

    def close(self) -> None:
        if self._catalog is not None:
            with suppress(Py4JError):  # of a JVM that is gone, or a catalog without connections
                self._catalog.close()
        self._catalog = None
        if self._gateway is not None:
            self._gateway.shutdown()
            self._gateway = None

    def _opened(self) -> Any:
        if self._catalog is None:
            jvm = self.jvm
            settings = jvm.java.util.HashMap()
            for name, value in self._settings.items():
                settings.put(name, value)
            hadoop = (
                self._session.sparkContext._jsc.hadoopConfiguration()
                if self._session is not None
                else jvm.org.apache.hadoop.conf.Configuration()
            )
            self._catalog = jvm.org.apache.iceberg.CatalogUtil.buildIcebergCatalog(self._name, settings, hadoop)
        return self._catalog


def _small_jvm(configurations: Sequence[Configuration]) -> JavaGateway:
    """It ends with this process: it reads a pipe of ours. Who connects needs a token that only we were told."""
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise Usage("pyspark is not installed", "pip install 'fencepost[iceberg]'")
    jars = [*map(str, fetch("spark", *configurations)), str(Path(spark.origin).parent / "jars" / "*")]
    try:
        port, token = launch_gateway(
            classpath=":".join(jars),
            javaopts=_SMALL,
            die_on_exit=True,
            enable_auth=True,
            java_path=str(find().executable),
        )
    except (Py4JError, OSError, ValueError) as error:
        raise Unreachable(f"Java does not start: {error}") from error
    return JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token, auto_convert=True))


def is_loaded(jvm: Any) -> bool:
    """Does that JVM have the library? To py4j a class that is not there is a package."""
    return isinstance(jvm.org.apache.iceberg.CatalogUtil, JavaClass)


def is_a(error: Py4JJavaError, *names: str) -> bool:
    return str(error.java_exception.getClass().getSimpleName()) in names


def said(error: Exception) -> str:
    """By its kind: what Java says may be pages."""
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getClass().getSimpleName())
    return str(error) if isinstance(error, FencepostError) else type(error).__name__
