"""What the PostgreSQL sink can do."""

from fencepost.rules.sinks import Capabilities, WritePath

CAPABILITIES = Capabilities("postgres", frozenset({WritePath.DIRECT, WritePath.STAGED}), atomic=True, dead_letters=True)
