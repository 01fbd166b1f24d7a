"""An S3 server of the tests' own: versitygw, over a folder.

`go install github.com/versity/versitygw/cmd/versitygw@latest` makes it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fencepost.local.ports import choose, listening
from fencepost.machine import cache, process

BUCKET = "lake"
SECRET = "not-to-be-seen-anywhere"  # noqa: S105
PATIENCE = 30.0


def program() -> str:
    """Skips where there is none."""
    places = [cache.folder() / "bin" / "versitygw", Path.home() / "go" / "bin" / "versitygw"]
    found = shutil.which("versitygw") or next((str(place) for place in places if place.is_file()), None)
    if found is None:
        pytest.skip("no versitygw on the path, in the cache folder or in ~/go/bin: nothing is run against S3")
    return found


@contextmanager
def s3_server(folder: Path) -> Iterator[dict[str, str]]:
    """What its clients need in their environment, while it runs."""
    (folder / BUCKET).mkdir(parents=True)
    port = choose(None, ())
    keys = {"ROOT_ACCESS_KEY_ID": "fencepost", "ROOT_SECRET_ACCESS_KEY": SECRET}
    argv = [program(), "--quiet", "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    with (folder.parent / "versitygw.log").open("ab") as log:
        server = subprocess.Popen(argv, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **keys})
    try:
        assert process.until(lambda: listening(port), PATIENCE), "versitygw does not answer"
        yield {
            "AWS_ACCESS_KEY_ID": "fencepost",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
    finally:
        server.kill()
        server.wait()
