"""Verbs of protocols, on the plane of the scan: there are none."""

from __future__ import annotations

from collections.abc import Sequence

from sim.data_plane import Timed


class NoActions:
    """The verbs of `sim.data_plane` for protocols, each of which raises ValueError."""

    def pause(self, task: int, until_ns: int | None) -> None:
        """No pauses."""
        raise _missing("pause")

    def unpause(self, task: int) -> None:
        """No pauses."""
        raise _missing("unpause")

    def hold(self, task: int, partition: int | None, origin: int | None) -> None:
        """No rules."""
        raise _missing("hold")

    def unhold(self, task: int, partition: int | None) -> None:
        """No rules."""
        raise _missing("unhold")

    def mute(self, partition: int, muted: bool) -> None:
        """No partition is muted."""
        raise _missing("mute")

    def add_instance(self, instance: int, partition: int, task: int) -> None:
        """A group has one instance."""
        raise _missing("add_instance")

    def route(self, sender: int, partition: int, targets: Sequence[int]) -> None:
        """A group has one instance."""
        raise _missing("route")

    def own(self, instance: int) -> None:
        """A group has one instance."""
        raise _missing("own")

    def copy_kept(self, sender: int, receiver: int, other: int) -> None:
        """Nothing is kept."""
        raise _missing("copy_kept")

    def adopt(self, instance: int, partition: int) -> None:
        """A group has one instance."""
        raise _missing("adopt")

    def checkpoint(self, partition: int, checkpoint_host: int) -> bool:
        """No checkpoints are taken."""
        raise _missing("checkpoint")

    def trim(self, partition: int, count: int) -> None:
        """Nothing is kept."""
        raise _missing("trim")

    def hand_down(self, instance: int, successor: int) -> bool:
        """A group has one instance."""
        raise _missing("hand_down")

    def freeze(self, partition: int, frozen: bool) -> None:
        """A group has one instance."""
        raise _missing("freeze")

    def plan_checkpoint_host(self, partition: int, host: int) -> None:
        """No checkpoints are taken."""
        raise _missing("plan_checkpoint_host")

    def announce(self, partition: int) -> None:
        """No checkpoints are taken."""
        raise _missing("announce")

    def measure(self, partition: int, from_ns: int) -> None:
        """No key group moves."""
        raise _missing("measure")

    def measure_until_calm(self, partition: int) -> None:
        """No key group moves."""
        raise _missing("measure_until_calm")

    def longest_ns(self, partition: int) -> int:
        """No key group moves."""
        raise _missing("longest_ns")

    def retire(self, partition: int) -> None:
        """A group has one instance."""
        raise _missing("retire")

    def send(
        self,
        sender: int,
        receiver: int,
        token: int,
        turn: bool = False,
        size_bytes: int = 0,
        work_ns: int = 0,
        channels: int = 0,
    ) -> None:
        """No messages."""
        raise _missing("send")

    def unalign(self, task: int) -> None:
        """No barriers."""
        raise _missing("unalign")

    def start_actions(self, actions: Sequence[Timed]) -> None:
        """No timed actions."""
        raise _missing("start_actions")


def _missing(verb: str) -> ValueError:
    return ValueError(f"not simulated yet: actions of protocols on the plane of the scan ({verb}); take the event loop")
