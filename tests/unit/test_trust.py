"""What is only found is believed where nobody but we or root could have put it there; what is typed, as it is."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from fencepost.errors import Usage
from fencepost.local import Stack, nearest_home, state
from fencepost.machine import process
from fencepost.machine.process import Program
from fencepost.machine.trust import believed, objection
from fencepost.spec import FILE_NAME, find, load
from support.hostile_yaml import GOOD

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of others")
STRANGER = pwd.getpwnam("nobody").pw_uid
US = os.geteuid()


def facts(mode: int, uid: int, gid: int = 0) -> os.stat_result:
    return os.stat_result((mode, 1, 1, 1, uid, gid, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("mode", "uid", "words"),
    [
        (stat.S_IFREG | 0o644, US, None),
        (stat.S_IFREG | 0o644, 0, None),
        (stat.S_IFREG | 0o600, STRANGER, "belongs to nobody"),
        (stat.S_IFREG | 0o646, US, "everybody can write to x"),
        (stat.S_IFREG | 0o664, US, "group 54321 can write to x"),
        (stat.S_IFDIR | 0o777, US, "everybody can write to x"),
        (stat.S_IFDIR | 0o1777, 0, None),  # sticky: others cannot touch our files in there
        (stat.S_IFDIR | 0o1777, STRANGER, "belongs to nobody"),
        (stat.S_IFLNK | 0o777, US, None),
        (stat.S_IFLNK | 0o777, STRANGER, "belongs to nobody"),
    ],
)
def test_who_could_have_written_it(mode: int, uid: int, words: str | None) -> None:
    assert objection(Path("x"), facts(mode, uid, 54321), {0, US}) == (words and words.replace("belongs", "x belongs"))


def test_a_group_of_one_user_alone_is_that_user() -> None:
    own = pwd.getpwuid(US)
    alone = not [entry for entry in pwd.getpwall() if entry.pw_gid == own.pw_gid and entry.pw_uid != US]
    found = objection(Path("x"), facts(stat.S_IFREG | 0o664, US, own.pw_gid), {US})
    assert (found is None) is alone


@pytest.mark.skipif(US != 0, reason="sudo makes root")
def test_under_sudo_the_caller_is_believed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SUDO_UID", raising=False)
    assert believed() == {0}
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert believed() == {0, STRANGER}
    monkeypatch.setenv("SUDO_UID", "x; y")
    assert believed() == {0}


# -- the pipeline file

WITH_CODE = GOOD + "transform: {arrow: 'transforms.py:f'}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / FILE_NAME).write_text(WITH_CODE)
    (tmp_path / "transforms.py").write_text("def f(batch): return batch\n")
    (tmp_path / "below").mkdir()
    return tmp_path


def test_our_own_is_found(project: Path) -> None:
    assert load(find(project / "below")).name == "orders"


def loose_file(project: Path) -> None:
    (project / FILE_NAME).chmod(0o666)


def loose_folder(project: Path) -> None:
    project.chmod(0o777)


def of_another(project: Path) -> None:
    os.chown(project / FILE_NAME, STRANGER, -1)


def folder_of_another(project: Path) -> None:
    os.chown(project, STRANGER, -1)


def link_of_another(project: Path) -> None:
    (project / FILE_NAME).rename(project / "real.yml")
    (project / FILE_NAME).symlink_to("real.yml")
    os.chown(project / FILE_NAME, STRANGER, -1, follow_symlinks=False)


def link_to_what_is_loose(project: Path) -> None:
    (project / FILE_NAME).rename(project / "below" / "real.yml")
    (project / FILE_NAME).symlink_to("below/real.yml")
    (project / "below").chmod(0o777)


@pytest.mark.parametrize(
    "made",
    [
        loose_file,
        loose_folder,
        link_to_what_is_loose,
        *(pytest.param(made, marks=as_root) for made in (of_another, folder_of_another, link_of_another)),
    ],
)
def test_one_that_others_could_have_written_is_refused_with_what_to_do(
    project: Path, made: Callable[[Path], None]
) -> None:
    made(project)
    with pytest.raises(Usage, match="is not used: ") as refused:
        find(project)
    assert refused.value.remedy == f"if you trust it, say so: --spec {project / FILE_NAME}"


@as_root
def test_the_remedy_can_be_followed(project: Path) -> None:
    for path in (project, project / FILE_NAME, project / "transforms.py"):
        os.chown(path, STRANGER, -1)
    assert load(project / FILE_NAME).name == "orders"  # a path that was typed


@pytest.mark.parametrize("mode", [0o666, 0o622])
def test_code_that_is_more_open_than_the_file_that_names_it_is_refused(project: Path, mode: int) -> None:
    (project / "transforms.py").chmod(mode)
    with pytest.raises(Usage, match=r"transforms\.py is not used: everybody"):
        load(project / FILE_NAME)


@as_root
def test_code_of_another_is_refused_unless_the_file_is_his_too(project: Path) -> None:
    os.chown(project / "transforms.py", STRANGER, -1)
    with pytest.raises(Usage, match=r"transforms\.py belongs to nobody"):
        load(find(project))
    os.chown(project / FILE_NAME, STRANGER, -1)
    assert load(project / FILE_NAME).name == "orders"


def test_a_team_that_writes_the_file_writes_its_code_too(project: Path) -> None:
    for path in (project / FILE_NAME, project / "transforms.py"):
        path.chmod(0o664)
    assert load(project / FILE_NAME).name == "orders"


# -- the stack's home


@pytest.fixture
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("FENCEPOST_HOME", raising=False)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path / "below"


def planted(folder: Path, victim: process.Identity | None = None) -> Path:
    """A home whose state names a process."""
    home = folder / ".fencepost"
    home.mkdir()
    told = state.new(home)
    told.nodes["broker-1"].process = victim
    state.save(home, told)
    return home


@as_root
def test_a_home_of_another_is_refused(below: Path) -> None:
    home = planted(below.parent)
    assert nearest_home() == home
    os.chown(home, STRANGER, -1)
    with pytest.raises(Usage, match="belongs to nobody") as refused:
        nearest_home()
    assert "--home DIR" in refused.value.remedy


def test_a_home_that_everybody_can_write_to_is_refused(below: Path) -> None:
    planted(below.parent).chmod(0o777)
    with pytest.raises(Usage, match="everybody can write to"):
        nearest_home()


@as_root
def test_a_planted_state_ends_nobody(tmp_path: Path) -> None:
    victim = process.spawn(Program([sys.executable, "-c", "import signal; signal.pause()"], tmp_path, tmp_path / "log"))
    try:
        home = planted(tmp_path, victim)
        os.chown(state.path(home), STRANGER, -1)
        with pytest.raises(Usage, match=r"state\.json belongs to nobody"):
            Stack(home).down()
        os.chown(state.path(home), 0, -1)
        os.chown(home, STRANGER, -1)
        with pytest.raises(Usage, match="belongs to nobody"):
            Stack(home).down()
        assert process.alive(victim)
    finally:
        process.end([victim], signal.SIGKILL, 10)


@as_root
def test_a_process_of_another_account_is_not_one_of_ours(tmp_path: Path) -> None:
    stranger = next(entry for entry in pwd.getpwall() if entry.pw_name == "daemon")
    who = process.Account(stranger.pw_name, stranger.pw_uid, stranger.pw_gid)
    victim = process.spawn(Program(["/bin/sleep", "60"], Path("/"), tmp_path / "log", account=who))
    try:
        stack = Stack(planted(tmp_path, victim))
        assert not stack.brokers["broker-1"].alive
        stack.down()
        assert process.alive(victim)
    finally:
        process.end([victim], signal.SIGKILL, 10)


AS_ANOTHER = """
import os, sys
from fencepost.errors import Usage
from fencepost.local import nearest_home, running
from fencepost.spec import find
running()
os.chdir(sys.argv[1])
os.setgid(65534)
os.setuid(int(sys.argv[2]))
print(nearest_home(), running())
try:
    find()
except Usage as refused:
    print(refused)
"""


@as_root
def test_what_we_may_not_enter_is_passed_over() -> None:
    """As another user, below a folder whose home is closed to him."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder).resolve() / "project" / "below"
        here.mkdir(parents=True)
        Path(folder).chmod(0o755)
        planted(here.parent).chmod(0o700)
        env = {name: value for name, value in os.environ.items() if name != "FENCEPOST_HOME"}
        words = [sys.executable, "-c", AS_ANOTHER, str(here), str(STRANGER)]
        told = subprocess.run(words, capture_output=True, text=True, check=False, env=env)
    first, second = told.stdout.splitlines() or (told.stderr, "")
    assert first == f"{here / '.fencepost'} None"
    assert second.startswith(f"there is no {FILE_NAME} in {here}")


def test_a_working_directory_that_is_gone_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FENCEPOST_HOME", raising=False)
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    for looking in (find, nearest_home):
        with pytest.raises(Usage, match="no longer exists"):
            looking()
