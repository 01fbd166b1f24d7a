"""Where librdkafka's own lines go."""

from __future__ import annotations

import logging

# Without a logger librdkafka writes to stderr. Who wants its lines gives this logger a handler.
librdkafka_log = logging.getLogger("fencepost.librdkafka")
librdkafka_log.addHandler(logging.NullHandler())
