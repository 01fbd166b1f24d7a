"""docs/library.md is true: its examples run as one script, and print what stands beside them."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from fencepost.kafka.client import Cluster
from fencepost.kafka.topics import TopicRequest, create_topic
from fencepost.local import Stack

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text()


def test_the_examples_run_as_they_stand(stack: Stack, tmp_path: Path) -> None:
    script = "\n".join(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL))
    shown = re.findall(r"^ *print\(.*\)  # (.*)$", script, re.MULTILINE)
    (tmp_path / ".fencepost").symlink_to(stack.home)  # which is up, so nothing is started
    with Cluster({"bootstrap.servers": stack.bootstrap_servers}) as cluster:
        for topic in ("shop-orders", "shop-paid"):
            create_topic(cluster, TopicRequest(topic, 2))
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stdout.splitlines() == shown, done.stderr
