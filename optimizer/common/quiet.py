"""Keeping native solvers off stdout: HiGHS prints a debugging line now and then, whatever its options."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_stdout() -> Iterator[None]:
    """Discard what native code writes to file descriptor 1 inside the block; Python's own buffer is flushed first."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    try:
        kept = os.dup(1)
    except OSError:  # there is no stdout to protect
        yield
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        _flush_native()  # what was written before belongs to the caller
        os.dup2(nowhere, 1)
        yield
    finally:
        _flush_native()
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)


def _flush_native() -> None:
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).fflush(None)
