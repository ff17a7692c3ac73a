"""Names and numbers as readers and as plotly get them; nothing in a name is ever markup."""

from __future__ import annotations

import json
import math
import re
import unicodedata

from markupsafe import Markup, escape

NONE = "–"
_STEPS = (
    (3600.0, "h", 3600.0),
    (120.0, "min", 60.0),
    (1.0, "s", 1.0),
    (1e-3, "ms", 1e-3),
    (1e-6, "µs", 1e-6),
    (0.0, "ns", 1e-9),
)
# By category of Unicode: control, line and paragraph characters, surrogates, and marks that show nothing.
_SHOWN_AS = {"Cc": " ", "Zl": " ", "Zp": " ", "Cs": "\ufffd", "Cf": ""}
_CODE = re.compile(r"`([^`]+)`")
_LARGE = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def plain(name: object) -> str:
    """The text in one line, without control characters and without marks that turn the direction of
    writing.
    """
    return "".join(_SHOWN_AS.get(unicodedata.category(char), char) for char in str(name))


def marked(sentence: object) -> Markup:
    """The text as HTML, what stands between backticks as code; everything in it is escaped first."""
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(plain(sentence)))))


def label(name: object, longest: int = 40) -> str:
    """The text as a plotly label: plotly reads some HTML tags and entities in labels, so they are spelled
    out.
    """
    return clip(plain(name), longest).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def clip(text: str, longest: int) -> str:
    """The text, or its beginning and an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def for_script(value: object) -> str:
    """JSON that is inert inside a script element: no `<`, `>` or `&`, ASCII only; raises ValueError for
    NaN.
    """
    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def number(value: float | None, digits: int = 3) -> str:
    """Three significant digits, thousands apart, no zeros at the end; a dash for None or NaN."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0 or isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f") if value else "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    shown = f"{value:,.{min(places, 9)}f}".replace(",", "\u202f")
    return shown.rstrip("0").removesuffix(".") if "." in shown else shown


def seconds(value: float | None) -> str:
    """A time with the unit that suits it: 12.3 ms, 4.56 s, 12 min."""
    if value is None or not math.isfinite(value):
        return NONE
    if value == 0:
        return "0 s"
    for least, unit, size in _STEPS:
        if abs(value) >= least:
            return f"{number(value / size)}\u00a0{unit}"
    return NONE


def rate(value: float | None) -> str:
    """Tuples per second: 850 /s, 12.3 k/s."""
    if value is None or not math.isfinite(value):
        return NONE
    for size, prefix in _LARGE:
        if abs(value) >= size:
            return f"{number(value / size)}\u00a0{prefix}/s"
    return f"{number(float(value))}\u00a0/s"


def share(value: float | None) -> str:
    """A share in per cent."""
    if value is None or not math.isfinite(value):
        return NONE
    percent = value * 100
    if percent and abs(percent) < 0.1:
        return f"{percent:.2g}\u00a0%"
    return f"{percent:.1f}".removesuffix(".0") + "\u00a0%"
