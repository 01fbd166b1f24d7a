"""A store in memory with the manners of a database: for users' own tests, and for ours of the idea itself."""

from fencepost.sinks.memory.store import Memory, MemorySink, MemoryStore, MemoryTransaction, Rows

__all__ = ["Memory", "MemorySink", "MemoryStore", "MemoryTransaction", "Rows"]
