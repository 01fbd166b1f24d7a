"""`spark.python.daemon.module`: pyspark's worker daemon without the zip files in its path.

pyspark invalidates the import caches before every task, and re-reads each zip file of the path when it does: four
times the time of a small batch. The installed package is importable without them.

What every task needs is imported before the first worker is forked: Spark ends workers that are idle for a minute.
"""

import importlib
import runpy
import sys

if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    for entry in [entry for entry in sys.path_importer_cache if entry.endswith((".zip", ".jar"))]:
        del sys.path_importer_cache[entry]
    importlib.import_module("fencepost.engines.spark.writer")
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
