"""A process of its own for work that may hang, take all memory or end its process: whatever it does is an answer.

The process speaks lines of JSON: one request in; any number of notes and one answer out (`serve`). It has a limit of
CPU time, which is the same on a busy machine and begins after what it prepares, and ends when the process that asked
has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

Answer = dict[str, Any]
Note = Callable[[Answer], None]

_LOOK_S = 0.1
# Wall-clock limits are generous: on a busy machine a run must fail by its own CPU time, or results would depend on the
# load of the machine.
_WALL = 20  # times the CPU limit: sleeps and deadlocks take no CPU time
_PREPARE_S = 600.0  # CPU time for what comes before the limit that was asked for
_GREATEST_S = 1e9  # of CPU time; systems take no more
_TAIL_BYTES = 4096  # of what the process says on stderr, kept for its last line


class Sandbox:
    """Asks one process after another, each as long as it lives; for one thread at a time."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        # -P: the working directory is not on the path, where a file of the user could hide a module of ours.
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = self._said = b""
        self._mute = False  # whether stderr is at its end

    def ask(self, request: Answer, cpu_s: float, note: Note, stop: Callable[[], bool]) -> Answer:
        """Return the answer of the process, or {"ended": why} with `timeout`, `stopped` or `crashed: ...`."""
        process = self._running()
        assert process.stdin is not None
        # Compiling and reading count against this first limit; "prepared" starts the one that was asked for.
        until = time.monotonic() + _WALL * _PREPARE_S
        try:
            # Writing fails where the process ended between two requests, for lack of memory for example: that is an
            # answer as well.
            process.stdin.write(json.dumps({"cpu_s": cpu_s, **request}).encode() + b"\n")
            process.stdin.flush()
        except OSError:
            return self._ended()
        while True:
            line = self._line()
            if line is None:
                return self._ended()
            if line:
                answer = json.loads(line)
                if "note" not in answer:
                    return dict(answer)
                if "prepared" in answer:
                    until = time.monotonic() + _WALL * cpu_s
                else:
                    note(answer)
            # Looked at once per line or per _LOOK_S: a thread that must give up does not wait for the run to end.
            if stop():
                self.close()
                return {"ended": "stopped"}
            if time.monotonic() > until:
                self.close()
                return {"ended": "timeout"}

    def close(self) -> None:
        """End the process."""
        # Forgotten first: if `wait` is interrupted, the next request still starts a new process.
        process, self._process = self._process, None
        if process is not None:
            # SIGKILL, since compiled code does not return to Python, where SIGTERM would be handled.
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what was not read by the other side
                        stream.close()

    def _running(self) -> subprocess.Popen[bytes]:
        """Return the process, started if there is none; it inherits the import path of this one."""
        if self._process is None:
            self._rest, self._said, self._mute = b"", b"", False
            # The child must import the same packages; empty entries mean the working directory and are left out.
            path = os.pathsep.join(entry for entry in sys.path if entry)
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for whoever asks
            )
        return self._process

    def _line(self) -> bytes | None:
        """Return the next line; empty if there is none yet, None if there will be none."""
        process = self._process
        assert process is not None and process.stdout is not None and process.stderr is not None
        if b"\n" not in self._rest:
            if not self._wait(process):
                return b""
            # `os.read` returns what is there; a buffered reader could hold lines that `select` does not know of.
            more = os.read(process.stdout.fileno(), 1 << 16)
            if not more:
                return None
            self._rest += more
        line, newline, rest = self._rest.partition(b"\n")
        if not newline:
            return b""
        self._rest = rest
        return line

    def _wait(self, process: subprocess.Popen[bytes]) -> bool:
        """Return whether there is something on stdout, or its end; what is said on stderr is taken meanwhile."""
        # stderr is read as well, or a process that says much would block on a full pipe. A closed one is always ready,
        # and left out.
        streams: list[Any] = [process.stdout] if self._mute else [process.stdout, process.stderr]
        ready, _, _ = select.select(streams, [], [], _LOOK_S)
        if process.stderr in ready:
            self._listen(process)
        return process.stdout in ready

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        """Keep the end of what is said on stderr."""
        assert process.stderr is not None
        more = os.read(process.stderr.fileno(), 1 << 16)
        self._mute = not more
        self._said = (self._said + more)[-_TAIL_BYTES:]

    def _last_line(self, process: subprocess.Popen[bytes]) -> str:
        """Return the last line that the process wrote to stderr, at its end."""
        assert process.stderr is not None
        while not self._mute:
            if select.select([process.stderr], [], [], _LOOK_S)[0]:
                self._listen(process)
            elif process.poll() is not None:  # whoever it started may hold stderr open for ever
                break
        lines = self._said.decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "")

    def _ended(self) -> Answer:
        """Return why the process ended: by its limit of CPU time, a signal or an exit code.

        With a crash comes the last line of stderr, where Python and the system say what happened.
        """
        process = self._process
        assert process is not None
        last = self._last_line(process)
        code = process.wait()
        self.close()
        # The soft limit of CPU time (`_allow_cpu`): the run used all that it was allowed.
        if code == -signal.SIGXCPU:
            return {"ended": "timeout"}
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return {"ended": f"crashed: the process ended by {how}" + (f": {last[:300]}" if last else "")}


def serve(
    answer: Callable[[Answer, Note], Answer], prepare: Callable[[Answer, Note], None] = lambda request, note: None
) -> None:
    """Serve requests in the process beside: read them until there are none, and write the answer to each.

    What `prepare` does with a request before does not count against its limit of CPU time.
    """
    # Answers go to a copy of stdout, and descriptor 1 becomes stderr: a print of a library would break the protocol.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints must not speak for us
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()

    def say(what: Answer) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    def tell(note: Answer) -> None:
        say({"note": True, **note})

    for line in sys.stdin:
        request = json.loads(line)
        cpu_s = request.pop("cpu_s")
        _allow_cpu(_PREPARE_S)
        prepare(request, tell)
        _allow_cpu(cpu_s)
        tell({"prepared": True})
        say(answer(request, tell))


def limit_memory(size_bytes: int) -> None:
    """Let this process have no more address space than that, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _allow_cpu(more_s: float) -> None:
    """End this process after so much more CPU time."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415

        # RLIMIT_CPU counts from the start of the process: what earlier requests used is added. It is in whole seconds.
        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime + min(more_s, _GREATEST_S)) + 1
        most = resource.getrlimit(resource.RLIMIT_CPU)[1]
        # A process that the limit ends would otherwise write its memory to disk.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limit if most == resource.RLIM_INFINITY else min(limit, most), most))


def end_with(parent: int, stopped: Callable[[], bool] = lambda: False) -> None:
    """End this process when that which started it has ended, or gave up; for a thread."""
    # A child whose parent has ended is given another parent; this also holds for a parent that was killed.
    while os.getppid() == parent and not stopped():
        time.sleep(_LOOK_S)
    # Not `sys.exit`: in a thread that would end the thread alone.
    os._exit(1)
