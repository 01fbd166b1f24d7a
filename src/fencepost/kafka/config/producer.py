"""A producer's settings, as they follow from its guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fencepost.errors import Usage
from fencepost.guarantee import Guarantee
from fencepost.kafka.client import Cluster, wait_until
from fencepost.kafka.config.settings import librdkafka_settings
from fencepost.kafka.names import require_identity
from fencepost.kafka.topics import describe_topic, is_known, topic_facts, topic_id_and_partitions
from fencepost.rules.findings import require
from fencepost.rules.producer import Acks, require_settings, required_producer_settings
from fencepost.rules.topics import topic_findings

QUEUE = 100_000  # events in memory at most: sending waits when they are that many
_RETRIES = ("retries", "message.send.max.retries")
_DEFAULTS = {
    "linger.ms": "5",
    "partitioner": "murmur2_random",  # a key goes where a Java producer would send it
    "queue.buffering.max.messages": str(QUEUE),
    "queue.buffering.max.kbytes": str(64 * 1024),
}
_LARGEST = 1_000_000  # bytes of a record that the client takes by default
_SMALLEST_LIMIT = 1_000
_HEARSAY_SECONDS = 2.0  # until every broker has heard of a topic that was made just now
STATISTICS_MS = 20  # a transaction waits this long at most to learn whether one of its requests was repeated


@dataclass(frozen=True)
class Declaration:
    """What a producer promises, and how far."""

    guarantee: Guarantee
    acks: Acks
    transactional_id: str | None = None  # promises that a restart does not double either
    delivery_reports: bool = True  # each event hears of its own answer; without, only of its failure
    declared: bool = True  # without a word nothing is asked of the topic

    @classmethod
    def of(
        cls,
        guarantee: Guarantee | str | None,
        acks: Acks | str | None,
        transactional_id: str | None,
        delivery_reports: bool,
    ) -> Declaration:
        """Raises Usage for words that do not go together."""
        try:
            word = Guarantee(guarantee or Guarantee.AT_LEAST_ONCE)
            given = Acks(acks) if acks is not None else None
        except ValueError as error:
            raise Usage(str(error), f"guarantees: {', '.join(Guarantee)}; acks: leader, quorum") from error
        meant = Acks.NOBODY if word is Guarantee.AT_MOST_ONCE else Acks.QUORUM
        if given not in (None, meant) and word is not Guarantee.AT_LEAST_ONCE:
            raise Usage(f"{word} goes with acks={meant}, not {given}", "leave acks out")
        if given is Acks.NOBODY and word is Guarantee.AT_LEAST_ONCE:
            raise Usage("at-least-once needs acknowledgements", "give acks=leader or acks=quorum")
        if transactional_id is not None and word is not Guarantee.EXACTLY_ONCE:
            raise Usage(f"a transactional.id goes with exactly-once, not with {word}", "leave it out")
        if transactional_id is not None:
            require_identity("transactional.id", transactional_id)
        return cls(word, given or meant, transactional_id, delivery_reports, guarantee is not None)

    def settings(self, kafka: Mapping[str, str]) -> dict[str, Any]:
        """librdkafka's settings. Raises Usage for one that would break the declaration."""
        required = required_producer_settings(self.guarantee, self.acks)
        require_settings(kafka, required)
        given = librdkafka_settings(kafka)
        fixed = {one.name: one.value for one in required if one.value}
        free = {} if self.declared else {"enable.idempotence": "true"}  # costs nothing, and doubles less
        settings: dict[str, Any] = {**_DEFAULTS, **free, **fixed, **given}
        settings["delivery.report.only.error"] = not self.delivery_reports
        if self.transactional_id is not None:
            settings |= {"transactional.id": self.transactional_id, "statistics.interval.ms": STATISTICS_MS}
        return settings

    def retries(self, kafka: Mapping[str, str]) -> bool:
        """May a request be repeated? Then the last answer does not tell what became of the first."""
        return self.guarantee is not Guarantee.AT_MOST_ONCE and "0" not in {kafka.get(name) for name in _RETRIES}

    def require_topic(self, cluster: Cluster, topic: str) -> None:
        """Raises Usage where there is no such topic, UnsupportedGuarantee where it cannot hold the guarantee."""
        wait_until(lambda: is_known(cluster, topic), _HEARSAY_SECONDS)
        topic_id_and_partitions(cluster, topic)
        if self.acks is not Acks.QUORUM or not self.declared:
            return
        facts = topic_facts(cluster, topic)
        if facts is not None:  # without the right to describe them, the topic's settings are not checked
            require(self.guarantee, topic_findings(facts))


def largest_record(cluster: Cluster, topic: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """The topic's own limit as the client's, where it is the smaller one.

    The broker refuses a whole batch for one record that is too large; the client refuses the record. Compressed
    records may pass though they are larger, so that there the broker decides.
    """
    if any(settings.get(name, "none") != "none" for name in ("compression.type", "compression.codec")):
        return {}
    limit = (describe_topic(cluster, topic).config or {}).get("max.message.bytes")
    if limit is None or int(limit) >= int(settings.get("message.max.bytes", _LARGEST)):
        return {}
    return {"message.max.bytes": str(max(int(limit), _SMALLEST_LIMIT))}
