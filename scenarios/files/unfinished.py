"""Names of files and directories that are being written, which tell those of a process that has died.

    PREFIX MACHINE-PROCESS-RUN-RANDOM

MACHINE stands for the host and its namespace of processes, RUN for this run of the process: in a container every run
may have the same number.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from functools import cache
from pathlib import Path

FILE = ".holdfast-new-"
"""The prefix of files that are being written."""
_OWNER = re.compile(r"([0-9a-f]{8})-([0-9]+)-([0-9a-f]{8})-[0-9a-f]{8}")
_OLD_S = 86_400.0  # nobody can ask whether a process of another machine is alive; no file takes a day to write


def new_name(prefix: str = FILE) -> str:
    """Return a name that nobody else has, and that tells its process."""
    return f"{prefix}{_machine()}-{os.getpid()}-{_run(os.getpid())}-{secrets.token_hex(4)}"


def is_new_name(name: str, prefix: str = FILE) -> bool:
    """Return whether this is a name of something that is, or was, being written."""
    return name.startswith(prefix) and _OWNER.fullmatch(name[len(prefix) :]) is not None


def remove_stale(folder: Path, prefix: str = FILE) -> None:
    """Remove what processes that have died were writing in a folder; what cannot be removed stays."""
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
            if is_new_name(path.name, prefix) and _is_stale(path, path.name[len(prefix) :]):
                _remove(path)


def _is_stale(path: Path, owner: str) -> bool:
    machine, process, run, _ = owner.split("-")
    if machine != _machine():
        with contextlib.suppress(OSError):
            return time.time() - path.lstat().st_mtime > _OLD_S
        return False
    if int(process) == os.getpid():
        return run != _run(os.getpid())
    return not _is_alive(int(process))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True  # of somebody else
    return True


@cache
def _run(_: int) -> str:
    """Return what tells this run of a process; a fork has another number, and so another run."""
    return secrets.token_hex(4)


@cache
def _machine() -> str:
    name = socket.gethostname()
    with contextlib.suppress(OSError):
        name += str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(name.encode()).hexdigest()[:8]
