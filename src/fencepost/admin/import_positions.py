"""Where others ended: a consumer group's offsets, or a Spark checkpoint's, for a pipeline to go on from."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlparse
from urllib.request import url2pathname

from fencepost.errors import Unreachable, Usage
from fencepost.kafka.client import Cluster
from fencepost.kafka.groups import describe_group
from fencepost.machine.counting import count
from fencepost.model import TopicPartition
from fencepost.spec import PipelineSpec


@dataclass(frozen=True)
class ImportedOffsets:
    """The next offset of each partition, by topic, and what to know before going on from there."""

    positions: Mapping[str, Mapping[int, int]]
    warning: str = ""


def find(spec: PipelineSpec, origin: str) -> ImportedOffsets:
    """`group:NAME` or `checkpoint:FOLDER`."""
    kind, _, name = origin.partition(":")
    if kind == "group" and name:
        with Cluster(spec.kafka) as cluster:
            return of_group(cluster, name, spec.source.origins)
    if kind == "checkpoint" and name:
        return of_checkpoint(_folder(name), spec.source.origins)
    raise Usage(f"--from {origin}: neither a group nor a checkpoint", "write group:NAME or checkpoint:FOLDER")


def of_group(cluster: Cluster, group: str, topics: Collection[str]) -> ImportedOffsets:
    """Raises Usage where its members are still at work: what they do from now on would be done twice.

    Unreachable where a transaction holds its offsets: it may be committed yet.
    """
    found = describe_group(cluster, group)
    if found.members:
        raise Usage(f"group {group!r} has {count(len(found.members), 'member')} active", "stop them first")
    stored: dict[str, dict[int, int]] = defaultdict(dict)
    for at, position in _settled(cluster, group).items():
        if at.topic in topics:
            stored[at.topic][at.partition] = position
    if not stored:
        raise Usage(f"group {group!r} has no offsets on {', '.join(topics)}", "see `fencepost group describe`")
    return ImportedOffsets(stored)


def _settled(cluster: Cluster, group: str) -> dict[TopicPartition, int]:
    try:
        return cluster.committed(group, stable=True)
    except Unreachable as trouble:
        raise Unreachable(
            f"the offsets of group {group!r} cannot be read: {trouble.message}",
            "an open transaction may hold them until its transaction.timeout.ms is over: try again then",
        ) from trouble


def of_checkpoint(folder: Path, topics: Collection[str]) -> ImportedOffsets:
    """The end of the last batch that Spark's query committed."""
    batches, commits = _numbers(folder / "offsets"), _numbers(folder / "commits")
    if not commits:
        raise Usage(f"{folder} has no committed batch", "name a query's checkpointLocation")
    last = max(commits)
    if last not in batches:
        raise Usage(f"{folder}: batch {last} is committed, but its offsets are missing", "is the checkpoint complete?")
    sources = _sources(folder / "offsets" / str(last))
    read = Counter(name for source in sources for name in source)
    if not any(read[topic] for topic in topics) or any(read[topic] > 1 for topic in topics):
        there = ", ".join(sorted(read)) or "no topic"
        raise Usage(f"{folder}: its query does not read {', '.join(topics)} once", f"it reads {there}")
    ends = {name: partitions for source in sources for name, partitions in source.items() if name in topics}
    begun = max(batches) > last
    warning = (
        f"batch {max(batches)} was started but not committed: its rows may be in the sink already" if begun else ""
    )
    return ImportedOffsets(
        {name: {int(number): offset for number, offset in end.items()} for name, end in ends.items()}, warning
    )


def _folder(name: str) -> Path:
    parts = urlparse(name)
    if parts.scheme not in ("", "file"):
        raise Usage(
            f"checkpoint:{name}: only local folders can be read",
            "copy it to this machine, and give the path of the copy",
        )
    folder = Path(url2pathname(parts.path)) if parts.scheme else Path(name)
    if not folder.is_dir():
        raise Usage(f"there is no folder {folder}")
    return folder


def _numbers(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.iterdir() if file.name.isdigit()} if folder.is_dir() else set()


def _sources(file: Path) -> list[dict[str, dict[str, int]]]:
    """A version, the batch's own facts, and then a line for each source: Kafka's are topics with their partitions."""
    version, _facts, *lines = file.read_text().splitlines()
    if version != "v1":
        raise Usage(f"{file}: offsets of format {version!r}", "only v1 is supported: use positions set instead")
    try:
        sources = [json.loads(line) for line in lines if line != "-"]
    except ValueError as error:
        raise Usage(f"{file} is not a Spark offset file: {error}") from error
    return [source for source in sources if isinstance(source, dict) and all(map(_is_topic, source.values()))]


def _is_topic(partitions: object) -> bool:
    return isinstance(partitions, dict) and all(isinstance(offset, int) for offset in partitions.values())
