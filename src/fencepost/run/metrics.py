"""A run's news as Prometheus metrics, served over HTTP. Off unless asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from time import monotonic

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from fencepost.engines.listener import BatchDone, News, Skipped, Started, Waiting
from fencepost.errors import Usage
from fencepost.model import TopicPartition

BATCH_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Listens to a run."""

    def __init__(self, pipeline: str) -> None:
        self.registry = CollectorRegistry()
        own, names = self.registry, ["pipeline"]
        place = [*names, "topic", "partition"]
        self._pipeline = pipeline
        self._position = Gauge("fencepost_position", "The next offset to read.", place, registry=own)
        self._lag = Gauge("fencepost_lag", "Offsets that are still to be read, in the topic.", names, registry=own)
        self._records = Counter("fencepost_records", "Offsets that were processed.", names, registry=own)
        self._rows = Counter("fencepost_rows", "Rows that landed.", names, registry=own)
        self._dead = Counter("fencepost_dead", "Records that were dead-lettered.", names, registry=own)
        self._skipped = Counter(
            "fencepost_skipped", "Offsets that were gone before they were read.", names, registry=own
        )
        self._batch = Histogram(
            "fencepost_batch_seconds", "From one batch's end to the next.", names, buckets=BATCH_SECONDS, registry=own
        )
        self._epoch = Gauge("fencepost_epoch", "How many owners the positions have had.", names, registry=own)
        self._retries = Counter("fencepost_retries", "How often something did not answer.", names, registry=own)
        self._fenced = Gauge("fencepost_fenced", "1 when another run took over.", names, registry=own)
        self._marked = monotonic()
        for each in (self._records, self._rows, self._dead, self._skipped, self._retries, self._fenced):
            each.labels(pipeline)  # zero, and not absent, before the first of them

    def __call__(self, news: News) -> None:
        match news:
            case Started():
                self._epoch.labels(self._pipeline).set(news.epoch)
                self._stand(news.positions)
                self._marked = monotonic()
            case BatchDone():
                self._landed(news)
            case Waiting():
                self._retries.labels(self._pipeline).inc()
            case Skipped():
                self._skipped.labels(self._pipeline).inc(news.span.end - news.span.start)

    def _landed(self, done: BatchDone) -> None:
        self._stand(done.positions)
        for counter, count in ((self._records, done.records), (self._rows, done.rows), (self._dead, done.dead)):
            counter.labels(self._pipeline).inc(count)
        if done.lag is not None:
            self._lag.labels(self._pipeline).set(done.lag)
        now = monotonic()
        self._batch.labels(self._pipeline).observe(now - self._marked)
        self._marked = now

    def _stand(self, positions: Mapping[TopicPartition, int]) -> None:
        for at, position in positions.items():
            self._position.labels(self._pipeline, at.topic, str(at.partition)).set(position)

    def fenced(self) -> None:
        self._fenced.labels(self._pipeline).set(1)


@contextmanager
def served(metrics: Metrics, where: str) -> Iterator[None]:
    """On HOST:PORT, or :PORT for loopback only, until the block ends."""
    host, colon, port = where.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise Usage(f"--metrics {where}: not an address", "write HOST:PORT, as in 127.0.0.1:9100")
    try:
        server, thread = start_http_server(int(port), host.strip("[]") or "127.0.0.1", metrics.registry)
    except OSError as error:
        raise Usage(f"--metrics {where}: {error.strerror or error}", "choose another port") from error
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
