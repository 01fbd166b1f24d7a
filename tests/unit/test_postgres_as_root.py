"""Where PostgreSQL can live, and which folders are not to be trusted."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.errors import Usage
from fencepost.local import postgres, postgres_as_root
from fencepost.machine.process import Account

STRANGER = Account("stranger", 54321, 54321)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as somebody else")


@pytest.fixture
def system_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """In place of the system's: one that everybody can pass through."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(postgres_as_root, "_SYSTEM_FOLDERS", (Path(name),))
        yield Path(name)


def test_a_private_folder_anywhere_above_is_in_the_way(system_folder: Path) -> None:
    deep = system_folder / "a" / "b" / "c"
    deep.mkdir(parents=True)
    for folder in (deep, *deep.parents[:2]):
        folder.chmod(0o755)
    owner = Account("owner", os.getuid(), os.getgid())
    member = Account("member", STRANGER.uid, deep.parent.stat().st_gid)
    assert all(postgres_as_root.may_enter(deep, who) for who in (owner, member, STRANGER))
    deep.parent.chmod(0o710)
    assert [postgres_as_root.may_enter(deep, who) for who in (owner, member, STRANGER)] == [True, True, False]
    deep.parent.chmod(0o701)
    assert [postgres_as_root.may_enter(deep, who) for who in (owner, member, STRANGER)] == [True, False, True]


def test_an_ordinary_users_database_is_in_his_home(tmp_path: Path) -> None:
    assert postgres_as_root.data_folder(tmp_path, None) == tmp_path / "postgres"
    assert (tmp_path / "postgres").stat().st_mode & 0o777 == 0o700
    assert postgres_as_root.data_folder(tmp_path, None) == tmp_path / "postgres"
    postgres_as_root.remove(tmp_path)
    assert not (tmp_path / "postgres").exists()


@as_root
def test_out_of_reach_it_is_put_where_its_user_can_go(tmp_path: Path, system_folder: Path) -> None:
    tmp_path.chmod(0o700)
    who = postgres_as_root.account()
    assert who
    folder = postgres_as_root.data_folder(tmp_path, who)
    assert folder.parent == system_folder / "fencepost"
    assert (folder.stat().st_uid, folder.stat().st_mode & 0o777) == (who.uid, 0o700)
    assert postgres_as_root.data_folder(tmp_path, who) == folder
    postgres_as_root.remove(tmp_path)
    assert not folder.exists()
    assert not (tmp_path / "postgres").is_symlink()


@as_root
def test_a_link_to_anywhere_else_is_not_followed(tmp_path: Path, system_folder: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "postgres").symlink_to(tmp_path / "precious")
    with pytest.raises(Usage, match="did not create"):
        postgres_as_root.data_folder(tmp_path, postgres_as_root.account())
    postgres_as_root.remove(tmp_path)
    assert (tmp_path / "precious").exists()


@as_root
@pytest.mark.parametrize("trap", ["link", "writable", "owned", "file"])
def test_a_folder_that_another_could_have_put_there_is_refused(tmp_path: Path, system_folder: Path, trap: str) -> None:
    base = system_folder / "fencepost"
    if trap == "link":
        base.symlink_to(tmp_path)
    elif trap == "file":
        base.touch()
    else:
        base.mkdir()
        base.chmod(0o777 if trap == "writable" else 0o755)
        if trap == "owned":
            os.chown(base, STRANGER.uid, STRANGER.gid)
    tmp_path.chmod(0o700)
    with pytest.raises(Usage, match="writable by others than root"):
        postgres_as_root.data_folder(tmp_path, postgres_as_root.account())


@as_root
def test_programs_out_of_reach_are_copied_once(tmp_path: Path, system_folder: Path) -> None:
    who = postgres_as_root.account()
    programs, libraries = postgres.installed()
    private = tmp_path / "site-packages"
    for source in (programs.parent, libraries):
        shutil.copytree(source, private / source.relative_to(libraries.parent), symlinks=True)
    tmp_path.chmod(0o700)
    there = private / programs.relative_to(libraries.parent)
    copied = postgres_as_root.binaries(there, private / libraries.name, "1.2.3", who)
    assert system_folder in copied.parents
    assert (copied / "initdb").stat().st_uid == 0
    before = copied.stat().st_ctime_ns
    assert postgres_as_root.binaries(there, private / libraries.name, "1.2.3", who) == copied
    assert copied.stat().st_ctime_ns == before
    assert sorted(path.name for path in (system_folder / "fencepost").iterdir()) == ["postgres-1.2.3"]
    assert postgres_as_root.binaries(there, private / libraries.name, "1.2.3", None) == there
