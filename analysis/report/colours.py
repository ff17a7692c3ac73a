"""One colour for each name on a page, the same on all charts: names are counted in the order of the file.

Eight names have a colour of their own. After eight the colours come again, with another dash and another symbol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

COLOURS = 8
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "cross", "star", "triangle-down")


class Style(NamedTuple):
    """The style of a name: the role of its colour, the dash of its line, the symbol of its marks."""

    colour: str
    dash: str
    symbol: str


def number_of(place: int) -> int:
    """The number of the colour of a name, 1 to 8, by its place in the order of the file."""
    return place % COLOURS + 1


def style(place: int) -> Style:
    """Return the style of the name at that place of the order."""
    again = place // COLOURS
    return Style(f"var:--c{number_of(place)}", _DASHES[again % len(_DASHES)], _SYMBOLS[(place + again) % len(_SYMBOLS)])


def styles(names: Iterable[str], order: Sequence[str] = ()) -> Mapping[str, Style]:
    """Name -> how it is drawn, by its place in `order`; names that are not in it come after it."""
    places = {name: place for place, name in enumerate(dict.fromkeys((*order, *names)))}
    return {name: style(place) for name, place in places.items()}
