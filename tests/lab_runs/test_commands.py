"""`fencepost lab` as a user types it: run, show, and what stays behind when it is killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from pathlib import Path

import psutil

from fencepost.machine import process
from support.commands import argv, here

NAME = "lost-acknowledgement"
PIPELINE = "dies-after-the-write-postgres-python-eo"


def test_a_run_is_told_kept_and_told_again(tmp_path: Path) -> None:
    home = tmp_path / "lab"
    ended = here("lab", "run", NAME, "--seed", "5", "--home", home, "--format", "json")
    told = ended.json
    assert (told["name"], told["verdict"], told["fault"], told["seed"]) == (NAME, "holds", 3, 5)
    assert told["guarded"]["lost"] == told["guarded"]["duplicated"] == 0
    assert told["control"]["anomalies"] == {"D1": 100}
    assert told["witness"]["fired"] == 1
    assert told["command"] == f"fencepost lab run {NAME} --seed 5"

    (folder,) = [one for one in home.iterdir() if one.is_dir()]
    assert {one.name for one in folder.iterdir()} >= {"history.jsonl", "verdict.json", "proxy.jsonl", "logs"}
    assert (folder / "logs" / "broker-1.log").exists()
    assert json.loads((folder / "verdict.json").read_text()) == told
    shown = here("lab", "show", "last", "--home", home)
    assert shown.code == 0
    assert "HOLDS" in shown.out
    again = here("lab", "show", folder.name, "--home", home, "--format", "json").json
    assert again["verdict"] == told
    assert [line["kind"] for line in again["history"]][-1] == "verdict"


def test_the_lab_killed_with_9_leaves_nothing_that_runs(tmp_path: Path) -> None:
    with subprocess.Popen(argv("lab", "run", "stalls-and-wakes", "--home", tmp_path), stdout=subprocess.DEVNULL) as lab:
        stalled = process.until(lambda: any(map(process.stopped, _below(lab.pid))), 120.0)
        everyone = [*_below(lab.pid), *_of_its_stack(lab.pid)]
        lab.send_signal(signal.SIGKILL)
        lab.wait()
    assert stalled
    assert len(everyone) >= 7  # five of the stack, the keeper, the carrier
    assert process.until(lambda: not any(map(process.alive, everyone)), 60.0)


def test_a_run_whose_reader_is_gone_ends_and_comes_to_no_verdict(tmp_path: Path) -> None:
    with subprocess.Popen(argv("lab", "run", PIPELINE, "--home", tmp_path), stdout=subprocess.PIPE) as lab:
        assert lab.stdout is not None
        for _ in range(3):  # up to its first event
            lab.stdout.readline()
        lab.stdout.close()
        assert lab.wait(120.0) == 141
    assert not list(tmp_path.glob("*/verdict.json"))


def test_ctrl_c_pressed_over_and_over_leaves_nothing_that_runs(tmp_path: Path) -> None:
    words = argv("lab", "run", "stalls-and-wakes", "--home", tmp_path)
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as lab:
        stalled = process.until(lambda: any(map(process.stopped, _below(lab.pid))), 120.0)
        everyone = [*_below(lab.pid), *_of_its_stack(lab.pid)]
        while lab.poll() is None:
            os.killpg(lab.pid, signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                lab.wait(0.2)
    assert stalled
    assert process.until(lambda: not any(map(process.alive, everyone)), 60.0)


def _below(pid: int) -> list[process.Identity]:
    identity = process.identify(pid)
    return process.family(identity)[1:] if identity else []


def _of_its_stack(pid: int) -> list[process.Identity]:
    """Known by the folder that the lab's keeper was told."""
    words = [psutil.Process(one.pid).cmdline() for one in _below(pid)]
    (keeper,) = [line for line in words if "fencepost.lab.keeper" in line]
    folder = keeper[-2]
    found = psutil.process_iter(["cmdline"])
    pids = [one.pid for one in found if any(folder in word for word in one.info["cmdline"] or [])]
    return [identity for identity in map(process.identify, pids) if identity]
