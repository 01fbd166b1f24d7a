"""Fencepost: declare a delivery guarantee in one word, and have it kept and proven."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fencepost import spark as spark
    from fencepost.audit.audit import audit
    from fencepost.audit.receipt import receipt
    from fencepost.engines.python.events import Event
    from fencepost.errors import Fenced, FencepostError, Refused, Unknown, Unreachable, Usage
    from fencepost.guarantee import Guarantee
    from fencepost.local.stack import Stack
    from fencepost.model import Outcome
    from fencepost.producing.producer import Producer
    from fencepost.run.consume import consume
    from fencepost.run.loop import Summary
    from fencepost.run.pipeline import Pipeline
    from fencepost.sinks.handlers import Output
    from fencepost.sinks.memory.store import MemoryStore

    __version__: str

__all__ = [
    "Event",
    "Fenced",
    "FencepostError",
    "Guarantee",
    "MemoryStore",
    "Outcome",
    "Output",
    "Pipeline",
    "Producer",
    "Refused",
    "Stack",
    "Summary",
    "Unknown",
    "Unreachable",
    "Usage",
    "__version__",
    "audit",
    "consume",
    "receipt",
]

_MODULES = {
    "Event": "engines.python.events",
    "Fenced": "errors",
    "FencepostError": "errors",
    "Guarantee": "guarantee",
    "MemoryStore": "sinks.memory.store",
    "Outcome": "model",
    "Output": "sinks.handlers",
    "Pipeline": "run.pipeline",
    "Producer": "producing.producer",
    "Refused": "errors",
    "Stack": "local.stack",
    "Summary": "run.loop",
    "Unknown": "errors",
    "Unreachable": "errors",
    "Usage": "errors",
    "audit": "audit.audit",
    "consume": "run.consume",
    "receipt": "audit.receipt",
}


def __getattr__(name: str) -> object:
    """A public name, loaded when it is first asked for: `import fencepost` and `fencepost --help` stay quick."""
    if name == "__version__":
        return import_module("importlib.metadata").version("fencepost")
    if name == "spark":  # a module, for those who have pyspark
        return import_module("fencepost.spark")
    if name not in _MODULES:
        raise AttributeError(f"module 'fencepost' has no attribute {name!r}")
    return getattr(import_module(f"fencepost.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
