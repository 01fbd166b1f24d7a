"""`fencepost init` in any folder: it writes two new files, or nothing."""

from __future__ import annotations

import os
import shlex
import subprocess
from pathlib import Path

import pytest

from fencepost.cli import main
from support.hostile import FILE_NAMES


def init(folder: Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["init", "--", str(folder)])
    return int(ended.value.code or 0)


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize("there", ["transforms.py", "fencepost.yml"])
@pytest.mark.parametrize("kind", ["file", "link", "link to nothing", "folder"])
def test_a_file_that_is_there_stays_as_it_is(
    tmp_path: Path, there: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, elsewhere = tmp_path / "shop", tmp_path / "elsewhere"
    folder.mkdir()
    elsewhere.write_text("precious")
    match kind:
        case "file":
            (folder / there).write_text("precious")
        case "link":
            (folder / there).symlink_to(elsewhere)
        case "link to nothing":
            (folder / there).symlink_to(tmp_path / "nothing")
        case "folder":
            (folder / there).mkdir()
    before = sorted(folder.iterdir())
    assert init(folder) == 2
    assert f"{there} exists already, and stays as it is" in capsys.readouterr().err
    assert sorted(folder.iterdir()) == before
    assert elsewhere.read_text() == "precious"
    assert not (tmp_path / "nothing").exists()


def test_other_files_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "README").touch()
    assert init(tmp_path / "shop") == 0
    assert files_in(tmp_path / "shop").keys() == {"README", "fencepost.yml", "transforms.py"}
    assert init(tmp_path / "shop") == 2


@pytest.mark.parametrize("name", FILE_NAMES)
def test_any_name_of_a_folder_gives_a_pipeline_or_one_clean_line(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / FILE_NAMES[name]
    code = init(folder)
    shown = capsys.readouterr()
    assert code in (0, 2)
    assert (shown.out + shown.err).replace("\n", "").isprintable()
    if code == 0:
        assert files_in(folder).keys() == {"fencepost.yml", "transforms.py"}
    else:
        assert shown.err.startswith("fencepost: ")
        assert not folder.exists()


def test_what_it_says_to_do_next_leads_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "my things; $(x)").mkdir()
    folder = tmp_path / "my things; $(x)" / "shop"
    assert init(folder) == 0
    said = capsys.readouterr().out.split("written: ")[1].splitlines()[0]
    done = subprocess.run(["bash", "-c", f"{said} && pwd"], capture_output=True, text=True, check=True)  # noqa: S607
    assert done.stdout == f"{folder.resolve()}\n"
    assert shlex.split(said) == ["cd", str(folder)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o500)
    assert init(tmp_path / "closed") == 2
