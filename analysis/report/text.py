"""Names, numbers and colours as readers and as plotly get them; nothing in a name is ever markup.

A name has one colour on a page, the same on all charts: names are counted in the order of the file. Eight names have a
colour of their own; after eight the colours come again, with another dash and another symbol.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from markupsafe import Markup, escape

from models import display

NONE = display.NONE
# By category of Unicode: control, line and paragraph characters, surrogates, and marks that show nothing.
_SHOWN_AS = {"Cc": " ", "Zl": " ", "Zp": " ", "Cs": "\ufffd", "Cf": ""}
_CODE = re.compile(r"`([^`]+)`")


def plain(name: object) -> str:
    """Return the text in one line, without control characters and marks that turn the direction of writing.

    >>> plain("a\\nb\\u202ec")
    'a bc'
    """
    return "".join(_SHOWN_AS.get(unicodedata.category(char), char) for char in str(name))


def cell(value: str) -> str:
    """Return a cell of a table as a page shows it; its line feeds stay."""
    return "\n".join(map(plain, value.split("\n")))


def marked(sentence: object) -> Markup:
    """Return the text as HTML, what stands between backticks as code; everything in it is escaped first.

    >>> marked("set `interval`, not <b>")
    Markup('set <code>interval</code>, not &lt;b&gt;')
    """
    # Escaped before the tags are put in: afterwards nobody could tell ours from those of a name.
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(plain(sentence)))))


def label(name: object, longest: int = 40) -> str:
    """Return the text as a plotly label: HTML tags and entities, some of which plotly reads, are spelled out.

    >>> label("a<b"), label("x" * 50, 4)
    ('a&lt;b', 'xxx…')
    """
    return clip(plain(name), longest).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def clip(text: str, longest: int) -> str:
    """Return the text, or its beginning and an ellipsis.

    >>> clip("a long name", 6)
    'a lon…'
    """
    return text if len(text) <= longest else text[: longest - 1] + "…"


def for_script(value: object) -> str:
    """Return JSON that is inert inside a script element: no `<`, `>` or `&`, ASCII only.

    Raises ValueError for NaN and infinity.
    """
    # "</script>" within a string would end the element; JSON allows any character as an escape.
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def number(value: float | None, digits: int = 3) -> str:
    """Return the number with three digits or more, as `models.display` says it."""
    return together(display.number(value, digits))


def seconds(value: float | None) -> str:
    """Return a time with the unit that suits it: 12.3 ms, 4.56 s, 12 min; a dash for one without an end."""
    return NONE if value is None or math.isinf(value) else together(display.duration(value))


def rate(value: float | None) -> str:
    """Return tuples per second: 850 /s, 12,346 /s."""
    return NONE if value is None or math.isinf(value) else together(display.rate(value))


def share(value: float | None) -> str:
    """Return a share in percent."""
    return NONE if value is None or math.isinf(value) else together(display.share(value))


def together(quantity: str) -> str:
    """Return the quantity with a space before its unit at which no line ends."""
    return quantity.replace(" ", "\u00a0")


COLOURS = 8
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "cross", "star", "triangle-down")


class Style(NamedTuple):
    """The style of a name: the role of its colour, the dash of its line, the symbol of its marks."""

    colour: str
    dash: str
    symbol: str


def number_of(place: int) -> int:
    """Return the number of the colour of a name, 1 to 8, by its place in the order of the file."""
    return place % COLOURS + 1


def style(place: int) -> Style:
    """Return the style of the name at that place of the order.

    Colours repeat after eight places, and dash and symbol change then, so that 48 names can be told apart.
    """
    again = place // COLOURS
    return Style(f"var:--c{number_of(place)}", _DASHES[again % len(_DASHES)], _SYMBOLS[(place + again) % len(_SYMBOLS)])


def styles(names: Iterable[str], order: Sequence[str] = ()) -> Mapping[str, Style]:
    """Name -> how it is drawn, by its place in `order`; names that are not in it come after it."""
    places = {name: place for place, name in enumerate(dict.fromkeys((*order, *names)))}
    return {name: style(place) for name, place in places.items()}
