"""Workers on processes: Ctrl-C, kills and errors end the command and all its processes, and nothing is half-written."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from other_processes import PATIENCE_S, marked, processes, until

from models.errors import WorkerLost
from scenarios.runs.task_runner import submitted

FLEET = """duration = "20000 d"
hosts = ["a", "b"]
replications = 16
times = {mttf = "1 h", mttr = "1 h"}
operators.o = ["a", "b"]
queries.q = ["o"]
"""


def double(number: int) -> int:
    return 2 * number


def rest(folder: str) -> None:
    """Say that a worker is there, and do nothing more."""
    Path(folder, str(os.getpid())).touch()
    time.sleep(PATIENCE_S)


def end(_: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_results_come_with_the_numbers_of_their_arguments():
    with submitted(double, [(k,) for k in range(5)], 2) as arrived:
        assert dict(itertools.chain.from_iterable(arrived)) == {0: 0, 1: 2, 2: 4, 3: 6, 4: 8}


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_workers_have_ended_when_an_error_leaves_the_block(tmp_path, error):
    def interrupted():
        with submitted(rest, [(str(tmp_path),)] * 3, 2):
            until(lambda: any(tmp_path.iterdir()))
            raise error

    with pytest.raises(error):
        interrupted()
    assert multiprocessing.active_children() == []


def send_half(begun: Path) -> bytes:
    """Return a result of which this process sends the first bytes, and then rests."""

    def send(connection: Connection, content: bytes) -> None:
        os.write(connection.fileno(), content[:100])
        begun.touch()
        time.sleep(PATIENCE_S)

    Connection._send = send
    return bytes(1000)


def stop_while_a_result_is_sent(begun: Path) -> None:
    with submitted(send_half, [(begun,)] * 2, 2):
        until(begun.exists)
        raise KeyboardInterrupt


def test_a_worker_that_is_terminated_while_it_sends_a_result_is_not_waited_for(tmp_path):
    # In a process of its own: one that waits for ever cannot be ended from inside.
    context = multiprocessing.get_context("spawn")
    waiting = context.Process(target=stop_while_a_result_is_sent, args=(tmp_path / "begun",))
    waiting.start()
    waiting.join(PATIENCE_S)
    ended = waiting.exitcode is not None
    waiting.kill()
    assert ended


def test_a_worker_that_is_killed_is_named_as_the_reason():
    with pytest.raises(WorkerLost, match="was killed"), submitted(end, [(1,), (2,)], 2) as arrived:
        list(arrived)
    assert multiprocessing.active_children() == []


def started(words: list[str], folder: Path) -> subprocess.Popen[str]:
    """A command in a session of its own, as a terminal has one for it."""
    return subprocess.Popen(
        [sys.executable, "-m", "holdfast", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=marked(folder),
    )


COMMANDS = {
    "fleet": (["fleet", "file.toml", "--workers", "2", "--out", "out"], 3),
    "sweep": (["sweep", "file.toml", "--workers", "2", "--out", "out"], 3),
    "reproduce": (["reproduce", "--quick", "--workers", "2", "--out", "out"], 3),
}
SAMPLE = (
    ("fleet", "group", False),
    ("fleet", "group", True),
    ("sweep", "parent", False),
)  # (name, whom, at_once)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by /proc")
@pytest.mark.parametrize(
    ("name", "whom", "at_once"),
    [
        pytest.param(*case, marks=() if case in SAMPLE else pytest.mark.slow)
        for case in itertools.product(COMMANDS, ("group", "parent"), (False, True))
    ],
)
def test_ctrl_c_ends_a_command_and_its_workers_in_one_line(tmp_path, name, whom, at_once):
    words, count = COMMANDS[name]
    (tmp_path / "file.toml").write_text(FLEET if name == "fleet" else sweep_text())
    command = started(words, tmp_path)
    until(lambda: len(processes(tmp_path)) >= (2 if at_once else count) or command.poll() is not None)
    (os.killpg if whom == "group" else os.kill)(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=PATIENCE_S)
    assert (command.returncode, last_lines(said)) == (130, ["interrupted"])
    until(lambda: not processes(tmp_path))
    assert not any((tmp_path / "out" / "tmp").glob("*"))
    if name == "fleet":
        assert [one.name for one in tmp_path.iterdir()] == ["file.toml"]


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by /proc")
def test_sigterm_to_the_whole_group_is_not_taken_for_a_lack_of_memory(tmp_path):
    (tmp_path / "file.toml").write_text(FLEET)
    words, count = COMMANDS["fleet"]
    command = started(words, tmp_path)
    until(lambda: len(processes(tmp_path)) >= count)
    os.killpg(command.pid, signal.SIGTERM)
    _, said = command.communicate(timeout=PATIENCE_S)
    assert command.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM), said
    assert "memory" not in said
    until(lambda: not processes(tmp_path))


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds processes by /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGKILL, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "name", ["fleet", *(pytest.param(one, marks=pytest.mark.slow) for one in ("sweep", "reproduce"))]
)
def test_no_worker_outlives_a_command_that_is_killed(tmp_path, name, number):
    words, count = COMMANDS[name]
    (tmp_path / "file.toml").write_text(FLEET if name == "fleet" else sweep_text())
    command = started(words, tmp_path)
    until(lambda: len(processes(tmp_path)) >= count)
    os.kill(command.pid, number)
    _, said = command.communicate(timeout=PATIENCE_S)
    assert command.returncode in (-number, 128 + number), said
    until(lambda: not processes(tmp_path))


def sweep_text() -> str:
    return (Path(__file__).parents[3] / "scenarios/library/mm1.toml").read_text() + "[sweep]\nseed = [1, 2, 3, 4]\n"


def last_lines(said: str) -> list[str]:
    """Return the lines that stay on the screen; a carriage return erases progress."""
    lines = [line.split("\r")[-1].strip() for line in said.replace("\x1b[K", "").splitlines()]
    return [line for line in lines if line and "pieces to make" not in line]
