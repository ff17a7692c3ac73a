"""Names that files and directories can have, and what is refused before any work: whatever is there stays."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from models.errors import InputError
from scenarios.files.write_once import check_place, new_directory, refuse_unwritable, write_text

LONGEST = "ü" * 125 + ".json"  # 255 bytes
TOO_LONG = "x" + LONGEST


@contextmanager
def closed(folder: Path) -> Iterator[None]:
    """Nothing may be written in the folder; where everything may (root), as somebody else."""
    user = os.geteuid()
    folder.chmod(0o555)
    os.seteuid(65534 if user == 0 else user)
    try:
        yield
    finally:
        os.seteuid(user)
        folder.chmod(0o755)


@pytest.fixture(name="open_above")
def _open_above(tmp_path: Path) -> Path:
    """A folder that somebody else can get to, also where a worker of the tests has one of its own above it."""
    for folder in (tmp_path, *(one for one in tmp_path.parents[:3] if one != Path(tempfile.gettempdir()))):
        folder.chmod(folder.stat().st_mode | 0o055)
    return tmp_path


def refusal(path: Path, *, force: bool = False) -> str:
    """What is said of a file that cannot be written, before the work and when it is written."""
    with pytest.raises(InputError) as before:
        refuse_unwritable(path, force=force, option="--out")
    with pytest.raises(InputError) as after:
        write_text(path, "new", force=force)
    assert str(after.value) == str(before.value).replace("--out", "out", 1)
    return str(before.value)


def test_every_name_that_the_file_system_allows_is_written(tmp_path):
    for name in (LONGEST, "a", "\udcff.json"):
        refuse_unwritable(tmp_path / name, force=False)
        write_text(tmp_path / name, "old")
        write_text(tmp_path / name, "new", force=True)
        assert (tmp_path / name).read_text() == "new"
    assert len(list(tmp_path.iterdir())) == 3


def test_a_name_that_is_too_long_is_refused_before_the_work(tmp_path):
    assert "has 256 bytes" in refusal(tmp_path / TOO_LONG)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_or_a_file_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("old")
    assert "folder does not exist" in refusal(tmp_path / "no" / "a.json")
    assert "folder does not exist" in refusal(tmp_path / "file" / "a.json")
    assert "folder does not exist" in refusal(tmp_path / TOO_LONG / "a.json")


def test_a_folder_in_which_nothing_may_be_written_is_refused_before_the_work(open_above):
    with closed(open_above):
        assert "nothing may be written" in refusal(open_above / "a.json")
        with pytest.raises(InputError, match="nothing may be written"):
            check_place(open_above / "new" / "run")


@pytest.mark.parametrize("force", [False, True])
def test_a_link_that_leads_nowhere_is_there(tmp_path, force):
    link = tmp_path / "a.json"
    link.symlink_to(tmp_path / "none")
    if not force:
        assert "--force overwrites it" in refusal(link)
        assert link.is_symlink()
        return
    write_text(link, "new", force=True)
    assert (link.read_text(), link.is_symlink(), [path.name for path in tmp_path.iterdir()]) == (
        "new",
        False,
        [link.name],
    )


def test_a_link_to_a_directory_that_is_not_there_is_there(tmp_path):
    link = tmp_path / "run"
    link.symlink_to(tmp_path / "none")
    with pytest.raises(InputError, match="leads nowhere"):
        check_place(link)
    with pytest.raises(InputError, match="leads nowhere"), new_directory(link):
        pass
    with new_directory(link, force=True) as folder:
        (folder / "a").write_text("new")
    assert (tmp_path / "none" / "a").read_text() == "new"
    (tmp_path / "round").symlink_to(tmp_path / "round")
    with pytest.raises(InputError, match="cannot be made"):
        check_place(tmp_path / "round", force=True)


def test_what_is_no_plain_file_is_not_replaced_even_with_force(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        assert "is not a plain file" in refusal(tmp_path / name, force=True)
    assert "is not a plain file" in refusal(Path(os.devnull), force=True)
    assert "is a directory" in refusal(tmp_path, force=True)


def test_a_dash_is_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "--json" in refusal(Path("-"))
    assert list(tmp_path.iterdir()) == []


def test_directories_have_every_name_that_the_file_system_allows(tmp_path):
    target = tmp_path / "new" / LONGEST
    for force in (False, True):
        check_place(target, force=force, ours=lambda _: True)
        with new_directory(target, force=force, ours=lambda _: True) as folder:
            (folder / "a").write_text("x")
    assert [path.name for path in target.parent.iterdir()] == [LONGEST]
    for bad in (tmp_path / TOO_LONG, tmp_path / TOO_LONG / "run", tmp_path / "none" / TOO_LONG):
        with pytest.raises(InputError, match="has 256 bytes"):
            check_place(bad)


def test_what_a_killed_process_left_beside_a_long_name_is_swept_away(tmp_path):
    target = tmp_path / LONGEST
    with pytest.raises(KeyboardInterrupt), new_directory(target) as folder:
        left = folder.name
        raise KeyboardInterrupt
    dead = left.replace(str(os.getpid()), "999999999")
    (tmp_path / dead).mkdir()
    with new_directory(target):
        pass
    assert [path.name for path in tmp_path.iterdir()] == [LONGEST]


def test_a_directory_below_a_file_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("old")
    with pytest.raises(InputError, match="is not a directory"):
        check_place(tmp_path / "file" / "run")
