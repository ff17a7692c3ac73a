"""Windows of event time as whole numbers: the windows of a tuple, when one ends, and which outputs may follow."""

from __future__ import annotations

from dataclasses import dataclass

from models.scenario.job import Window
from models.units import to_ns


@dataclass(frozen=True)
class Windows:
    """Window n = 0, 1, 2, ... holds event times from n `slide_ns` on, for `length_ns`."""

    length_ns: int
    slide_ns: int

    @classmethod
    def of(cls, window: Window) -> Windows:
        """Return the windows of an operator."""
        return cls(max(1, to_ns(window.length_s)), max(1, to_ns(window.step_s)))

    @property
    def most(self) -> int:
        """Return the largest number of windows that one tuple is in."""
        return -(-self.length_ns // self.slide_ns)

    def first(self, event_ns: int) -> int:
        """Return the first window that ends after an event time."""
        return max(0, (event_ns - self.length_ns) // self.slide_ns + 1)

    def last(self, event_ns: int) -> int:
        """Return the last window that has begun by an event time; if it is before `first`, the time is in no window."""
        return event_ns // self.slide_ns

    def end_ns(self, window: int) -> int:
        """Return the first event time after the window."""
        return window * self.slide_ns + self.length_ns

    def held_ns(self, watermark_ns: int) -> int:
        """Return the watermark behind the operator: it can only emit results of windows that end later."""
        return min(watermark_ns, self.first(watermark_ns) * self.slide_ns)
