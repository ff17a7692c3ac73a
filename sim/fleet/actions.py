"""Changes of a placement; each names a part and hosts by their numbers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Move:
    """Move an instance to another host."""

    part: int
    origin: int
    target: int


@dataclass(frozen=True)
class Split:
    """Give half of a part a primary at the target; its replicas stay where they are, one for each half."""

    part: int
    target: int


@dataclass(frozen=True)
class Add:
    """Give a part another replica."""

    part: int
    target: int


@dataclass(frozen=True)
class Remove:
    """Take a replica from a part."""

    part: int
    host: int


Change = Move | Split | Add | Remove
