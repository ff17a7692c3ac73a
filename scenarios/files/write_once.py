"""Files and directories that appear whole or not at all.

Everything is written under a temporary name on the same disk and renamed at the end. If the block raises, the temporary
name is removed; if the process is killed, the next one that writes there removes it (`remove_stale`).

Temporary names tell which process made them:

    PREFIX MACHINE-PROCESS-RUN-RANDOM

MACHINE stands for the host and its namespace of processes, RUN for this run of the process: in a container every run
may have the same number. The name has a fixed length, so that a file may have every name that the file system allows.

In this order: temporary names, files (`write_file`, `write_once`), checks of paths before any work is done, and
directories (`new_directory`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import IO, Any

from models.errors import MACHINE_FAULTS, NO_VALUE, InputError

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
    """Return whether the process that was writing is gone; of another machine, whether the file is a day old."""
    machine, process, run, _ = owner.split("-")
    # A disk that several machines share: a process number of another machine says nothing here, so only age counts.
    if machine != _machine():
        with contextlib.suppress(OSError):
            return time.time() - path.lstat().st_mtime > _OLD_S
        return False
    # Our number but another run: a container was restarted, and its first process has this number again.
    if int(process) == os.getpid():
        return run != _run(os.getpid())
    return not _is_alive(int(process))


def _remove(path: Path) -> None:
    """Remove a file, a link or a whole directory; errors are ignored, as another process may be faster."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _is_alive(process: int) -> bool:
    """Return whether a process of this machine has the number; True if it cannot be asked."""
    try:
        # Signal 0 is delivered to nobody: it only checks that the process exists.
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
    """Return eight hex digits for this host and its namespace of processes."""
    name = socket.gethostname()
    with contextlib.suppress(OSError):
        # Containers of one host may share its name, while their process numbers are unrelated.
        name += str(Path("/proc/self/ns/pid").readlink())
    return hashlib.sha256(name.encode()).hexdigest()[:8]


_LONGEST_NAME = 255  # bytes, where a file system does not tell


def write_text(path: Path, text: str, *, force: bool = False) -> None:
    """Write a file under a temporary name and rename it; InputError when it exists and `force` is false."""
    write_file(path, lambda file: file.write(text.encode()), force=force)


def write_file(path: Path, fill: Callable[[IO[bytes]], Any], *, force: bool = False) -> None:
    """Write a file as `write_text` does; `fill` writes its content."""
    # Before the file is written, for a clear message; the rename at the end would replace whatever is there.
    refuse_unwritable(path, force=force)
    with disk_errors(path), written_whole(path, path.parent) as written, written.open("xb") as file:
        fill(file)
        file.flush()
        # Content before name: after a power failure the rename could otherwise be on disk and the content not.
        os.fsync(file.fileno())


@contextmanager
def disk_errors(path: Path, rule: str = "cannot be written") -> Iterator[None]:
    """Name the path in what the file system says: OSError where the disk is full or broken, else InputError."""
    try:
        yield
    except OSError as error:
        why = os.strerror(error.errno) if error.errno else str(error)
        # A full or broken disk is no fault of the input: callers give it another exit code and may try again.
        if error.errno in MACHINE_FAULTS:
            raise OSError(error.errno, why, str(path)) from error
        raise InputError.at(str(path), NO_VALUE, rule, why.lower()) from error


def refuse_unwritable(path: Path, *, force: bool, option: str = "out") -> None:
    """Raise InputError where no file of this name can be written, as far as that shows before any work is done.

    That is a directory, what is no plain file, what exists (also as a link that leads nowhere) without `force`, a name
    that is too long, and a folder that is not there or that takes nothing. `option` is what the user said it with.
    """
    mode = _mode(path)
    if path == Path("-"):
        raise InputError.at(option, "-", "is no file", "--json prints the answer to stdout")
    if mode is not None and stat.S_ISDIR(mode):
        raise InputError.at(option, str(path), "is a directory")
    if not stat.S_ISDIR(_mode(path.parent) or 0):
        raise InputError.at(option, str(path), "its folder does not exist")
    why = why_unwritable(path)
    if why:
        raise InputError.at(option, str(path), "cannot be written", why)
    if mode is not None and not stat.S_ISREG(mode):
        raise InputError.at(option, str(path), "is not a plain file")
    if os.path.lexists(path) and not force:
        raise InputError.at(option, str(path), "exists", "--force overwrites it")


def refuse_plan(
    path: Path | None, problem: Path | None, *, force: bool, suffixes: tuple[str, ...] = (".json",)
) -> None:
    """Raise InputError when the plan of --out could not be written, or read again, before any work is done.

    That is what `refuse_unwritable` refuses, another suffix than those of plans, and the problem file itself.
    """
    if path is None:
        return
    if path.suffix not in suffixes and path != Path("-"):
        raise InputError.at("--out", str(path), "must end in " + " or ".join(suffixes), "verify reads no other plan")
    # Both the name and what a link leads to: --force must not overwrite the problem through either.
    if problem is not None and _place(path) in (_place(problem), problem.resolve()):
        raise InputError.at("--out", str(path), "is the problem itself", "give the plan a file of its own")
    refuse_unwritable(path, force=force, option="--out")


def refuse_page_within(page: Path | None, out: Path | None) -> None:
    """Raise InputError when the page of --report is in the directory of --out, which is made anew, or is that."""
    if page is not None and out is not None and _place(out) in (_place(page), *_place(page).parents):
        raise InputError.at("--report", str(page), "is in the directory of --out", "which has a page of its own")


def _place(path: Path) -> Path:
    """Return the place of the name of a file, whatever a link of this name leads to."""
    return path.parent.resolve() / path.name


def refuse_page(path: Path | None, *, force: bool) -> None:
    """Raise InputError when the page of --report could not be written, before any work is done."""
    if path is None:
        return
    if path.suffix != ".html":
        raise InputError.at("--report", str(path), "must end in .html")
    refuse_unwritable(path, force=force, option="--report")


def why_unwritable(path: Path) -> str:
    """Return in words why nothing of this name can be made; "" where it can. Folders above may be missing.

    Nothing is tried: names and permissions are as the file system reports them.
    """
    names, above = [path.name], path.parent
    # `mkdir(parents=True)` makes the missing ones, so the nearest folder that exists decides.
    while _mode(above) is None and above != above.parent:
        names.append(above.name)
        above = above.parent
    if not stat.S_ISDIR(_mode(above) or 0):
        return f"{above} is not a directory"
    most = _longest_name(above)
    longest = max(len(os.fsencode(name)) for name in names)
    if longest > most:
        return f"its name has {longest} bytes, and {most} are the most there"
    # `os.access` asks for the real user by default; files are written as the effective one.
    as_who = {"effective_ids": True} if os.access in os.supports_effective_ids else {}
    return "" if os.access(above, os.W_OK | os.X_OK, **as_who) else f"nothing may be written in {above}"


def _mode(path: Path) -> int | None:
    """Return the status of the file at the path, following links; None where there is none, or it cannot be seen."""
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _longest_name(folder: Path) -> int:
    """Return the bytes that a name in the folder may have."""
    try:
        return os.pathconf(folder, "PC_NAME_MAX")
    except (OSError, ValueError, AttributeError):  # a system that does not tell
        return _LONGEST_NAME


def write_once(path: Path, content: bytes, beside: Path) -> bool:
    """Write a file of this content, by way of the directory `beside` on the same disk; False where one is there."""
    with being_written(beside) as written:
        written.write_bytes(content)
        flush(written)
        return name_once(written, path)


@contextmanager
def written_whole(path: Path, folder: Path) -> Iterator[Path]:
    """Yield a hidden name in a folder on the same disk to write a file under, which replaces `path` at the end.

    Files that processes which have died began to write in the folder are removed.
    """
    remove_stale(folder)
    with being_written(folder) as written:
        yield written
        # Atomic on one file system: readers see the old file or the new one, never a part.
        written.replace(path)


@contextmanager
def being_written(folder: Path) -> Iterator[Path]:
    """Yield a name for a file to be written in the block; where that raises (a full disk, Ctrl-C) none is left."""
    written = folder / new_name()
    try:
        yield written
    # KeyboardInterrupt and SystemExit as well: only a killed process leaves its temporary file behind.
    except BaseException:
        written.unlink(missing_ok=True)
        raise


def name_once(written: Path, path: Path) -> bool:
    """Give a complete file its name, and take its former one; False where somebody was first.

    By a hard link, which fails where the name is there.
    """
    try:
        # A rename would replace the file of whoever was first; a link fails, and the loser knows it.
        os.link(written, path)
    except FileExistsError:
        return False
    finally:
        written.unlink(missing_ok=True)
    # The name is an entry of the directory, which has to reach the disk as well.
    flush(path.parent)
    return True


def flush(path: Path) -> None:
    """Have the content of a file, or the names in a directory, on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


_LONGEST_MARK = 200  # bytes of a name


@contextmanager
def new_directory(path: Path, *, force: bool = False, ours: Callable[[Path], bool] = lambda _: False) -> Iterator[Path]:
    """Yield a directory beside `path` to write into, which takes the place of `path` when the block ends well.

    When the block raises, or the process dies, `path` is as it was before. An empty directory may be there.
    What else is there is replaced only with `force`, and only if `ours(path)` says that it is of the kind
    that is written: `force` on a wrong path must not empty it. Raises InputError otherwise.
    """
    # Before the work, for an early message, and again before the rename: others may have written there meanwhile.
    check_place(path, force=force, ours=ours)
    target = _resolved(path)
    _remove_stale_beside(target)
    written = _beside(target, "new")
    with disk_errors(target, "cannot be made"):
        written.mkdir(parents=True)
    try:
        with disk_errors(target):
            yield written
            check_place(target, force=force, ours=ours)
            _put(written, target)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise


def check_place(path: Path, *, force: bool = False, ours: Callable[[Path], bool] = lambda _: False) -> None:
    """Raise the InputError that `new_directory` would raise for what is at `path` now."""
    target = _resolved(path)
    why = why_unwritable(target)
    if why:
        raise InputError.at(str(target), NO_VALUE, "cannot be made", why)
    if not force and path.is_symlink() and not path.exists():
        raise InputError.at(str(path), "a link", "leads nowhere", "use --force to make what it names")
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    if not target.is_dir():
        raise InputError.at(str(target), "a file", "must be a directory or not there yet")
    if not force:
        raise InputError.at(str(target), "a directory with files", "is not overwritten", "use --force")
    if not ours(target):
        rule = "is not overwritten, even with force"
        raise InputError.at(str(target), "a directory with other files", rule, "choose a new one")


def _resolved(path: Path) -> Path:
    """Return the path with links resolved; raises InputError for one that leads to itself or cannot be read."""
    try:
        return path.resolve()
    except (OSError, RuntimeError) as error:  # RuntimeError: a link that leads to itself
        why = getattr(error, "strerror", None) or "a link leads to itself"
        raise InputError.at(str(path), NO_VALUE, "cannot be made", why.lower()) from None


def _remove_stale_beside(target: Path) -> None:
    """Remove what a process that has died began to write for this place."""
    # `_put` was killed between its two renames where the target is gone: the old directory is then the only copy.
    kinds = ("new", "old") if target.exists() else ("new",)  # an old one without its successor is all there is
    for kind in kinds:
        remove_stale(target.parent, _prefix(target, kind))


def _put(written: Path, target: Path) -> None:
    """Give the directory its name; a former one steps aside, and comes back if the rename fails."""
    if not target.exists():
        written.rename(target)
        return
    # A directory with content cannot be replaced by a rename: the old one steps aside first, and comes back on failure.
    old = _beside(target, "old")
    target.rename(old)
    try:
        written.rename(target)
    except BaseException:
        old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _beside(target: Path, what: str) -> Path:
    return target.with_name(new_name(_prefix(target, what)))


def _prefix(target: Path, what: str) -> str:
    """Return the beginning of names beside the target: its own name, or a digest where that leaves no room for more."""
    name = os.fsencode(target.name)
    # File systems limit names to 255 bytes, and the mark of the owner takes some of these.
    mark = target.name if len(name) <= _LONGEST_MARK else hashlib.sha256(name).hexdigest()
    return f".{mark}.{what}-"
