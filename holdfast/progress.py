"""Progress on stderr: a line per stage with a bar and the time left; silent where stderr is no terminal.

`progress` yields the function that stages call; `Left` estimates the time left, `Stopwatch` measures stages.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import TaskID

_LEAST_SHARE, _LEAST_S = 0.02, 1.0  # that must be done before it says anything of what is left

_OTHERS = 50  # characters of a line beside its text and what is under way


class ProgressCallback(Protocol):
    """Is told what is done, and the share of it that is done, None where nobody knows.

    `left_s` is what is left, where somebody knows better than by the share; `now` what of it is under way.
    """

    def __call__(self, text: str, share: float | None, left_s: float | None = None, now: str = "") -> None: ...


class Left:
    """How long a stage will take yet: by what was last told of it, less the time since then."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._last: tuple[float, float] | None = None

    def told(self, elapsed_s: float, share: float | None, left_s: float | None = None) -> None:
        """Note the share that is done after so long, or what is left.

        By shares the rest goes on as it went since the first of them, which may be of what was there before.
        """
        if left_s is None and share is not None:
            # The first share may come from an earlier attempt that is resumed: only progress since then has a pace.
            began_s, before = self._first = self._first or (elapsed_s, share)
            # Extrapolating from less gives numbers that jump by a factor of ten.
            if share - before >= _LEAST_SHARE and elapsed_s - began_s >= _LEAST_S:
                left_s = (elapsed_s - began_s) * (1 - share) / (share - before)
        if left_s is not None:
            self._last = elapsed_s, left_s

    def at(self, elapsed_s: float) -> float | None:
        """Return what is left after so long [s], None where it is not known."""
        # `_last` is (when it was told, what was left then): their sum is the expected end.
        return None if self._last is None else max(0.0, sum(self._last) - elapsed_s)


class Stopwatch:
    """Passes on what is told, and measures how long each text is the last one."""

    def __init__(self, on_progress: ProgressCallback, first: str) -> None:
        """Measure `first`, which is not passed on, from now on."""
        self._on_progress, self._text, self._since = on_progress, first, time.perf_counter()
        self._took: dict[str, float] = {}

    def __call__(self, text: str, share: float | None, left_s: float | None = None, now: str = "") -> None:
        """Tell what is done now, as `ProgressCallback` says."""
        if text != self._text:
            self._next(text)
        self._on_progress(text, share, left_s, now)

    def seconds(self) -> dict[str, float]:
        """Return wall time of each text so far [s], in the order in which they were told."""
        self._next(self._text)
        return dict(self._took)

    def _next(self, text: str) -> None:
        now = time.perf_counter()
        # A stage may come back: its times add up.
        self._took[self._text] = self._took.get(self._text, 0.0) + now - self._since
        self._text, self._since = text, now


def clipped(text: str, room: int) -> str:
    """Return as much of the end of a text as there is room for."""
    return text if len(text) <= room else "…" + text[len(text) - room + 1 :] if room > 1 else ""


@contextmanager
def progress() -> Iterator[ProgressCallback]:
    """Yield a function that is told how far it is; each new text is a new line."""
    from rich.console import Console  # noqa: PLC0415 - only where somebody looks
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.text import Text  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        # Logs and pipes get no bars: control characters would fill them.
        yield lambda text, share, left_s=None, now="": None
        return

    class LeftColumn(ProgressColumn):
        """The time left as h:mm:ss."""

        def render(self, task: Task) -> Text:
            if task.total is None:
                return Text("")
            seconds = 0.0 if task.finished else task.fields["left"].at(task.elapsed or 0.0)
            if seconds is None:
                return Text("-:--:--", style="progress.remaining")
            minutes, rest = divmod(math.ceil(seconds), 60)
            return Text(f"{minutes // 60}:{minutes % 60:02}:{rest:02}", style="progress.remaining")

    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("left"),
        LeftColumn(),
        TextColumn("{task.fields[now]}"),
    )
    with Progress(*columns, console=console) as bars:
        lines: dict[str, TaskID] = {}

        def close() -> None:
            for line in lines.values():
                bars.update(line, total=1.0, completed=1.0, now="")

        def on_progress(text: str, share: float | None, left_s: float | None = None, now: str = "") -> None:
            # A new text closes all lines before it: stages follow each other, so what was not told as done is done.
            if text not in lines:
                close()
                total = None if share is None else 1.0
                # Escaped: brackets in the name of a scenario would be markup.
                lines[text] = bars.add_task(escape(text), total=total, left=Left(), now="")
            line = lines[text]
            task = bars.tasks[bars.task_ids.index(line)]
            task.fields["left"].told(task.elapsed or 0.0, share, left_s)
            # A line that wraps could not be overwritten, and the terminal would fill with copies of it.
            room = console.width - _OTHERS - len(text)
            total = None if share is None else 1.0
            bars.update(line, total=total, completed=share, now=escape(clipped(now, room)))

        yield on_progress
        close()
