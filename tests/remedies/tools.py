"""Tools of others that a remedy names, as a person has them."""

from __future__ import annotations

import pytest

from fencepost.errors import FencepostError
from fencepost.machine import jars, java


def kafka_tool(name: str) -> list[str]:
    """One of Kafka's own tools, by its class, from the jars that `ivy.xml` pins."""
    try:
        classpath = ":".join(map(str, jars.fetch("broker", "tools")))
    except FencepostError as error:
        pytest.skip(f"Kafka's tools cannot be had: {error}")
    return [str(java.find().executable), "-cp", classpath, name]
