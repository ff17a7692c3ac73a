"""Turn placements before and after into words short enough for a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analysis.report import text
from analysis.report.parts import PlacedGroup, PlacedHost, PlacementChange
from analysis.report.text import COLOURS, number_of

_MOST_HOSTS, _MOST_CHIPS = 60, 2500


@dataclass(frozen=True)
class Chip:
    """A key group as a small box: its number, the colour of its operator, and what became of it."""

    number: str
    colour: str
    moved: bool
    said: str


@dataclass(frozen=True)
class Side:
    """One host at one time: boxes, how many more stayed without one, and the load [%] where it is known."""

    chips: tuple[Chip, ...]
    more: int
    load: str
    percent: float | None


@dataclass(frozen=True)
class BeforeAfter:
    """The two pictures host by host; `legend` gives the colours of the operators."""

    title: str
    rows: tuple[tuple[str, Side, Side], ...]
    legend: tuple[tuple[str, str], ...]
    note: str


def before_after(given: PlacementChange, order: Sequence[str] = ()) -> BeforeAfter:
    """Return the hosts that have or had key groups, at most 60, with a box for each key group where there is room.

    An operator has the colour of its place in `order`, as in all figures.
    """
    hosts = [one for one in given.hosts if one.before or one.after]
    hosts.sort(key=lambda one: not _changed(one))  # those with moves first, else in their order
    shown = hosts[:_MOST_HOSTS]
    names = dict.fromkeys((*order, *given.operators))
    place = {name: k for k, name in enumerate(names)}
    only_moved = sum(len(one.before) + len(one.after) for one in shown) > _MOST_CHIPS
    rows = tuple(
        (
            text.plain(one.name),
            _side(one.before, one.load_before, place, "went to", only_moved),
            _side(one.after, one.load_after, place, "came from", only_moved),
        )
        for one in shown
    )
    legend = tuple((text.plain(name), _colour(place[name])) for name in given.operators)
    notes = [f"Boxes are key groups, those that moved are filled. Replication {given.replication}."]
    if given.span_s is not None:
        notes.append(f"Bars are the CPU in use: the mean of the first and of the last {text.seconds(given.span_s)}.")
    if len(hosts) > len(shown):
        notes.append(f"{len(hosts) - len(shown)} more hosts are left out.")
    return BeforeAfter("Key groups and load of each host", rows, legend, " ".join(notes))


def _changed(one: PlacedHost) -> bool:
    return any(group.other for group in (*one.before, *one.after))


def _side(
    groups: Sequence[PlacedGroup], load: float | None, place: dict[str, int], verb: str, only_moved: bool
) -> Side:
    """Return one side of the picture of a host: its key groups, its load, and where moved groups went or came from."""
    kept = [one for one in groups if one.other or not only_moved]
    chips = tuple(
        Chip(
            str(one.key_group),
            _colour(place[one.operator]),
            bool(one.other),
            f"{text.plain(one.operator)}[{one.key_group}]" + (f" {verb} {text.plain(one.other)}" if one.other else ""),
        )
        for one in sorted(kept, key=lambda one: (place[one.operator], one.key_group))
    )
    percent = None if load is None else min(100.0, max(0.0, 100 * load))
    return Side(chips, len(groups) - len(kept), text.share(load), percent)


def _colour(place: int) -> str:
    """Return the classes of a box: its colour, and that it is not the first operator that has it."""
    return f"c{number_of(place)}" + (" again" if place >= COLOURS else "")
