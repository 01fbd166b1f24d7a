"""`spark.python.daemon.module`: pyspark's worker daemon without the zip files in its path.

pyspark invalidates the import caches before every task, and re-reads each zip file of the path when it does: four
times the time of a small batch. The installed package is importable without them.
"""

import runpy
import sys

if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    for entry in [entry for entry in sys.path_importer_cache if entry.endswith((".zip", ".jar"))]:
        del sys.path_importer_cache[entry]
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)
