"""Importance of a replica of a part, without trying hosts for it."""

from __future__ import annotations

from sim.fleet.placement import FleetPlacement, Part


def largest_load(placement: FleetPlacement) -> float:
    """Return the load of the largest part [cores]."""
    return max((float(placement.load[one.op]) * one.share for one in placement.parts.values()), default=0.0)


def importance(kind: str, placement: FleetPlacement, part: Part, largest: float, draw: float) -> float:
    """Return the share of queries that need it, low load, the product of both, a draw, or the value of the file.

    `largest` is the load of the largest part [cores].

    Source: Adaptive selective replication (VLDB PhD workshop 2013), "Importance".
    """
    degree = len(placement.users[part.op]) / max(1, len(placement.present))
    low = 1.0 - (float(placement.load[part.op]) * part.share / largest if largest else 0.0)
    if kind == "degree":
        return degree
    if kind == "utilisation":
        return low
    if kind == "product":
        return degree * low
    if kind == "random":
        return draw
    return placement.system.fleet.operator(placement.system.operators[part.op]).importance or 0.0
