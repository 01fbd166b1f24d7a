"""The page as a process of its own, as a person starts it; ended by its pid."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.commands import argv

PATIENCE = 30.0


@contextmanager
def served(*words: object, folder: Path, env: Mapping[str, str] | None = None) -> Iterator[str]:
    """Gives its address."""
    command = argv("web", "--port", 0, "--format", "json", *words)
    environment = {**os.environ, "FENCEPOST_CACHE": str(folder / "cache"), **(env or {})}
    with (
        (folder / "web.err").open("ab") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment) as process,
    ):
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, (folder / "web.err").read_text()
            yield json.loads(line)["address"].rstrip("/")
        finally:
            process.terminate()
            process.wait(20)


def page_with(client: httpx.Client, path: str, text: str) -> str:
    """What is shown is up to some seconds old: the page, once this is in it."""
    deadline = time.monotonic() + PATIENCE
    while text not in (page := client.get(path).text):
        assert time.monotonic() < deadline, f"{path} does not show {text!r}, but {page[:300]}"
        time.sleep(0.1)
    return page


def without(client: httpx.Client, path: str, text: str) -> str:
    """The same, once it is gone."""
    deadline = time.monotonic() + PATIENCE
    while text in (page := client.get(path).text):
        assert time.monotonic() < deadline, f"{path} still shows {text!r}"
        time.sleep(0.1)
    return page


def token_of(client: httpx.Client) -> dict[str, str]:
    """What our own page sends with a change."""
    (token,) = re.findall(r'data-token="([^"]+)"', client.get("/").text)
    return {"x-fencepost-token": token, "origin": str(client.base_url).rstrip("/")}


def browser_of(address: str, **headers: str) -> httpx.Client:
    return httpx.Client(base_url=address, headers=headers, timeout=60, trust_env=False)
