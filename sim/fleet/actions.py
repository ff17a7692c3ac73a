"""What can be done to a placement; each names the part by its number, and hosts by theirs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """An instance goes to another host."""

    part: int
    origin: int
    target: int


@dataclass(frozen=True)
class Split:
    """Half of a part gets a primary at the target; its replicas stay where they are, one for each half."""

    part: int
    target: int


@dataclass(frozen=True)
class Add:
    """A part gets another replica."""

    part: int
    target: int


@dataclass(frozen=True)
class Remove:
    """A part loses a replica."""

    part: int
    host: int


Change = Move | Split | Add | Remove
