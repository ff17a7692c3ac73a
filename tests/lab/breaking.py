"""How something is broken on purpose."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lab.laboratory import Laboratory
from lab.plans import SUBJECTS
from sim.migration.protocol import Protocol


@dataclass(frozen=True)
class Mutant:
    """A defect by name, the protocol under which it is looked for, and how to break a laboratory so."""

    name: str
    protocol: str
    tamper: Callable[[Laboratory], None]
    shaped: bool = False  # no chain can show it


MUTANTS: list[Mutant] = []


def protocol(name: str, title: str) -> Callable[[type[Protocol[Any]]], type[Protocol[Any]]]:
    """Put a class in the list, which takes the place of a protocol."""

    def listed(broken: type[Protocol[Any]]) -> type[Protocol[Any]]:
        def tamper(lab: Laboratory) -> None:
            SUBJECTS[name].kind(lab).protocols[name] = broken

        MUTANTS.append(Mutant(title, name, tamper))
        return broken

    return listed


def around(
    name: str, title: str, shaped: bool = False
) -> Callable[[Callable[[Laboratory], None]], Callable[[Laboratory], None]]:
    """Put a function in the list, which breaks something around the protocols."""

    def listed(tamper: Callable[[Laboratory], None]) -> Callable[[Laboratory], None]:
        MUTANTS.append(Mutant(title, name, tamper, shaped))
        return tamper

    return listed
