"""Where a Delta table may be: a store in which of two drivers that make the same version one fails.

Spark's own log store for S3 looks whether the version is there and then puts it, which is no comparison: the later one
of two drivers overwrites what the other has committed, rows and positions. It was seen to.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from fencepost.errors import Usage

S3 = ("s3", "s3a", "s3n")
COMPARES = "io.delta.storage.S3DynamoDBLogStore"  # by a table in DynamoDB
LOCKS = ("AWS_S3_LOCKING_PROVIDER", "dynamodb")  # the same for deltalake, which makes the commits without rows


def require_log_store(path: str, spark: Mapping[str, str]) -> None:
    """Raises Usage for a table in S3 whose commits nothing compares."""
    scheme = path.partition("://")[0]
    if scheme not in S3:
        return
    setting, (variable, provider) = f"spark.delta.logStore.{scheme}.impl", LOCKS
    if spark.get(setting) != COMPARES:
        raise Usage(
            f"{path}: Delta's log store for S3 compares nothing: two drivers overwrite each other's commits",
            f"set under spark {setting}: {COMPARES}, and {variable}={provider} in the environment; or use "
            "format: iceberg, whose catalog compares",
        )
    if os.environ.get(variable) != provider:
        raise Usage(
            f"{path}: Spark's commits are compared in DynamoDB, and those of deltalake are not",
            f"set {variable}={provider} in the environment",
        )
