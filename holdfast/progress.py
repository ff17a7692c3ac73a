"""What is going on, on stderr: a line per stage with a bar and the time left; silent where stderr is no terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Talk = Callable[[str, float | None], None]


class Stopwatch:
    """Passes on what is told, and measures how long each text is the last one."""

    def __init__(self, talk: Talk, first: str) -> None:
        """Measure `first`, which is not passed on, from now on."""
        self._talk, self._text, self._since = talk, first, time.perf_counter()
        self._took: dict[str, float] = {}

    def __call__(self, text: str, share: float | None) -> None:
        """Tell what is done now, and the share of it that is done, or None."""
        if text != self._text:
            self._next(text)
        self._talk(text, share)

    def seconds(self) -> dict[str, float]:
        """Wall time of each text so far [s], in the order in which they were told."""
        self._next(self._text)
        return dict(self._took)

    def _next(self, text: str) -> None:
        now = time.perf_counter()
        self._took[self._text] = self._took.get(self._text, 0.0) + now - self._since
        self._text, self._since = text, now


@contextmanager
def progress() -> Iterator[Talk]:
    """A function that is told (what is done, share done or None); each new text is a new line."""
    from rich.console import Console  # noqa: PLC0415 - only where somebody looks
    from rich.markup import escape  # noqa: PLC0415
    from rich.progress import (  # noqa: PLC0415
        BarColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda text, share: None
        return
    columns = (
        SpinnerColumn(finished_text="[green]✓"),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bars:
        lines: dict[str, int] = {}

        def talk(text: str, share: float | None) -> None:
            if text not in lines:
                for earlier in lines.values():
                    bars.update(earlier, total=1.0, completed=1.0)  # type: ignore[arg-type]
                lines[text] = bars.add_task(escape(text), total=None if share is None else 1.0)
            if share is not None:
                bars.update(lines[text], total=1.0, completed=share)  # type: ignore[arg-type]

        yield talk
        for line in lines.values():
            bars.update(line, total=1.0, completed=1.0)  # type: ignore[arg-type]
