"""What a process that was killed was writing is removed by the next run; what a live process writes is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from holdfast.cli import main
from scenarios.files import write_once
from scenarios.files.write_once import FILE, is_new_name, new_directory, new_name, remove_stale, write_text
from scenarios.studies.reproduce.tasks import TMP, check_directory
from scenarios.sweeps.store import SweepStore

HOSTS = """hosts = ["a", "b"]
p = 0.1
operators.o = ["a", "b"]
queries.q = ["o"]
"""
WRITES = {
    "file": "with written_whole(folder / 'page.html', folder) as new:\n    new.write_text('half')\n    hang()",
    "directory": "with new_directory(folder / 'run') as new:\n    (new / 'a').write_text('half')\n    hang()",
    "piece": "with being_written(folder / 'tmp') as new:\n    new.write_text('half')\n    hang()",
}
CHILD = """
import sys, time
from pathlib import Path
from scenarios.files.write_once import new_directory
from scenarios.files.write_once import being_written, written_whole
folder = Path(sys.argv[1])
def hang():
    print("written", flush=True)
    time.sleep(600)
"""


@pytest.fixture(name="writer")
def _writer(tmp_path):
    """Start processes that hang in the middle of writing."""
    begun = []

    def start(what):
        (tmp_path / "tmp").mkdir(exist_ok=True)
        process = subprocess.Popen(
            [sys.executable, "-c", CHILD + WRITES[what], str(tmp_path)], stdout=subprocess.PIPE, text=True
        )
        begun.append(process)
        assert process.stdout.readline() == "written\n"
        return process

    yield start
    for process in begun:
        process.kill()
        process.communicate()


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".*"))


def kill(process) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait()


def again(what: str, folder: Path) -> None:
    """What the next run does in the folder."""
    if what == "file":
        write_text(folder / "page.html", "new", force=True)
    elif what == "directory":
        with new_directory(folder / "run"):
            pass
    else:
        SweepStore(folder).clean()


@pytest.mark.parametrize("what", WRITES)
def test_the_next_run_removes_what_a_killed_one_was_writing(tmp_path, writer, what):
    process = writer(what)
    (name,) = hidden(tmp_path)
    again(what, tmp_path)
    assert hidden(tmp_path) == [name]  # it may go on writing
    kill(process)
    again(what, tmp_path)
    assert hidden(tmp_path) == []


def test_reproduce_removes_pieces_that_a_killed_process_was_writing(tmp_path, writer):
    (tmp_path / "out").mkdir()
    check_directory(tmp_path / "out")
    kill(writer("piece"))
    (name,) = hidden(tmp_path)
    (tmp_path / TMP / name).replace(tmp_path / "out" / TMP / name)
    check_directory(tmp_path / "out")
    assert hidden(tmp_path) == []


def test_the_next_report_removes_the_page_of_a_killed_one(tmp_path, capsys, writer):
    kill(writer("file"))
    (tmp_path / "hosts.toml").write_text(HOSTS)
    assert len(hidden(tmp_path)) == 1
    with pytest.raises(SystemExit) as left:
        main(["availability", str(tmp_path / "hosts.toml"), "--report", str(tmp_path / "page.html")])
    assert not left.value.code
    assert hidden(tmp_path) == []
    assert (tmp_path / "page.html").exists()


def named(machine: str | None = None, process: int | None = None, run: str | None = None) -> str:
    """A name of a file that is being written, with another owner."""
    parts = new_name()[len(FILE) :].split("-")
    return FILE + "-".join([machine or parts[0], str(process or parts[1]), run or parts[2], parts[3]])


def test_only_names_of_dead_processes_are_removed(tmp_path):
    dead, former = named(process=2**40), named(run="0" * 8)
    mine, elsewhere, others = new_name(), named(machine="0" * 8, process=2**40), named(process=os.getppid())
    foreign = [".holdfast-new-thesis", ".hidden", "page.html", f"{dead}.html", f"x{dead}"]
    for name in (dead, former, mine, elsewhere, others, *foreign):
        (tmp_path / name).write_text("half")
    remove_stale(tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {mine, elsewhere, others, *foreign}


def test_of_another_machine_only_what_is_old_is_removed(tmp_path):
    path = tmp_path / named(machine="0" * 8)
    path.write_text("half")
    for age_s, stays in ((3600, True), (2 * 86_400, False)):
        os.utime(path, times=(time.time() - age_s,) * 2)
        remove_stale(tmp_path)
        assert path.exists() is stays


def test_a_fork_is_another_owner_and_a_name_is_told_from_others():
    assert write_once._run(1) != write_once._run(2)
    assert is_new_name(new_name())
    assert not is_new_name("page.html")
    assert len(new_name()) < 100


def test_a_link_is_removed_and_not_what_it_leads_to(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "a").write_text("kept")
    (tmp_path / named(process=2**40)).symlink_to(tmp_path / "mine")
    remove_stale(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine" / "a").read_text() == "kept"
