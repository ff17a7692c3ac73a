"""Keys whose tuples leave the state when no post-dated output of the key waits any more: then the key closes.

A key is new until its first output waits, so that a tuple that comes before that one counts. Once it has closed, tuples
count only while it is open again. What is known of a closed key is that it has closed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass
class OpenKey:
    """Hold a key that is new or open: how many of its post-dated outputs wait, and its tuples in the state.

    It is the one at place `number` of all that have become new or open.
    """

    outputs: int = 0
    tuples: int = 0
    number: int = 0


class OpenKeys:
    """The keys of a partition that hold tuples, and those that have closed."""

    def __init__(self) -> None:
        self.keys: dict[int, OpenKey] = {}
        self.closed: set[int] = set()
        self.entered = 0  # keys that have become new or open so far

    def copy(self) -> OpenKeys:
        """Return a copy that later changes do not reach."""
        made = OpenKeys()
        made.keys = {key: replace(one) for key, one in self.keys.items()}
        made.closed, made.entered = set(self.closed), self.entered
        return made

    def added(self, before: OpenKeys) -> int:
        """Return how many of the tuples have come since a copy was made: a key may have closed meanwhile."""
        return sum(
            one.tuples - (before.keys[key].tuples if one.number < before.entered else 0)
            for key, one in self.keys.items()
        )

    @property
    def tuples(self) -> int:
        """Return the number of tuples in the state."""
        return sum(key.tuples for key in self.keys.values())

    def begin_to_wait(self, key: int) -> None:
        """Note an output of the key that waits."""
        self._entry(key).outputs += 1

    def _entry(self, key: int) -> OpenKey:
        if key not in self.keys:
            self.keys[key] = OpenKey(number=self.entered)
            self.entered += 1
        return self.keys[key]

    def end_to_wait(self, key: int) -> None:
        """Note an output of the key that leaves: with the last one the key closes."""
        self.keys[key].outputs -= 1
        if not self.keys[key].outputs:
            self.close(key)

    def count_in(self, key: int, made: bool) -> None:
        """Count a tuple for its key, unless that is closed; its outputs are `made`, if it makes any."""
        if made and not (key in self.keys and self.keys[key].outputs):  # their time is over, and they have left
            self.close(key)
        elif key in self.keys or key not in self.closed:
            self._entry(key).tuples += 1

    def lose(self) -> None:
        """Forget all that keys hold, and the outputs that wait: keys that are open close, new ones are new again."""
        self.closed.update(key for key, one in self.keys.items() if one.outputs)
        self.keys.clear()

    def close(self, key: int) -> None:
        """Let the tuples of the key go."""
        self.keys.pop(key, None)
        self.closed.add(key)
