"""A process of its own for work that may hang, take all memory or end its process: whatever it does is an answer.

The process speaks lines of JSON: one request in; any number of notes and one answer out (`serve`). It has a limit of
CPU time, which is the same on a busy machine, and ends when the process that asked has ended.
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
_WALL = 20  # times the CPU limit: sleeps and deadlocks take no CPU time


class Guard:
    """Asks one process after another, each as long as it lives; for one thread at a time."""

    def __init__(self, module: str, arguments: Sequence[str]) -> None:
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._process: subprocess.Popen[bytes] | None = None
        self._rest = b""

    def ask(self, request: Answer, cpu_s: float, note: Note, stop: Callable[[], bool]) -> Answer:
        """What the process answers, or {"ended": why} with `timeout`, `stopped` or `crashed: ...`."""
        process = self._running()
        assert process.stdin is not None
        began = time.monotonic()
        try:
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
                note(answer)
            if stop():
                self.close()
                return {"ended": "stopped"}
            if time.monotonic() - began > _WALL * cpu_s:
                self.close()
                return {"ended": "timeout"}

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):  # what was not read by the other side
                        stream.close()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            self._rest = b""
            path = os.pathsep.join(entry for entry in sys.path if entry)
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": path},
                start_new_session=True,  # Ctrl-C is for whoever asks
            )
        return self._process

    def _line(self) -> bytes | None:
        """The next line; empty if there is none yet, None if there will be none."""
        process = self._process
        assert process is not None and process.stdout is not None
        if b"\n" not in self._rest:
            ready, _, _ = select.select([process.stdout], [], [], _LOOK_S)
            if not ready:
                return b""
            more = os.read(process.stdout.fileno(), 1 << 16)
            if not more:
                return None
            self._rest += more
        line, newline, rest = self._rest.partition(b"\n")
        if not newline:
            return b""
        self._rest = rest
        return line

    def _ended(self) -> Answer:
        process = self._process
        assert process is not None
        code = process.wait()
        self.close()
        if code == -signal.SIGXCPU:
            return {"ended": "timeout"}
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return {"ended": f"crashed: the process ended by {how}"}


def serve(answer: Callable[[Answer, Note], Answer]) -> None:
    """The other side: read requests until there are none, and write what `answer` says to each."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints must not speak for us
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()

    def say(what: Answer) -> None:
        out.write(json.dumps(what) + "\n")
        out.flush()

    for line in sys.stdin:
        request = json.loads(line)
        _allow_cpu(request.pop("cpu_s"))
        say(answer(request, lambda note: say({"note": True, **note})))


def limit_memory(size_bytes: int) -> None:
    """Let this process have no more address space than that, where the system can."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415 - not on every system

        resource.setrlimit(resource.RLIMIT_AS, (size_bytes, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _allow_cpu(more_s: float) -> None:
    """End this process after so much more CPU time."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource  # noqa: PLC0415

        used = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(used.ru_utime + used.ru_stime + more_s) + 1
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(1)
