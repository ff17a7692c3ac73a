"""Output to the terminal: names from files are text, never markup, colours or cursor movements."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from models.table import Table

_WIDTH = 80
_TEXTS = (24, 8)  # width of a column of texts, at least, as long as there is room
_MOST_LINES = 5  # of a head
_Layout = list[tuple[str, bool, int]]  # of each column: its head in lines, whether it is never folded, its least width
_PLACES = ("--out", "--report", "--page", "--tables", "--workers")  # where it is written, and who does it
# Control characters and marks that turn the direction of writing make a line show what it does not say.
_CATEGORIES = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def warn(texts: Iterable[str]) -> None:
    """Print warnings to stderr, one on a line."""
    for text in texts:
        print(f"warning: {clean(text)}", file=sys.stderr)


def clean(text: object, *, lines: bool = False) -> str:
    """Return the text without characters that a terminal acts on; line feeds stay where `lines` is true."""
    shown = str(text)
    # The common case, without a look at each character.
    if shown.isascii() and shown.isprintable():
        return shown
    return "".join(c for c in shown if (c == "\n" and lines) or unicodedata.category(c) not in _CATEGORIES)


def error(text: object) -> None:
    """Write one line about an error to stderr."""
    print(f"error: {clean(text)}", file=sys.stderr)


def print_json(document: Any) -> None:
    """Write one JSON document to stdout."""
    # NaN is not JSON: a defect that shows here is better than a document that others cannot read.
    print(json.dumps(document, allow_nan=False))


def facts(lines: Iterable[tuple[str, str]], width: int) -> list[str]:
    """Return a line for each name and text, the texts below each other, also where one needs several lines."""
    # The texts have a column of their own: what is wrapped must not begin below the names.
    room = _columns() - width
    found = []
    for name, text in lines:
        parts = textwrap.wrap(clean(text), room, break_on_hyphens=False) or [""]
        found += [f"{name:<{width}}{parts[0]}", *(" " * width + part for part in parts[1:])]
    return found


def again() -> str:
    """Return the command that was called, without the places to which it writes: what a page says to do it again."""
    said: list[str] = []
    skip = False
    for part in sys.argv[1:]:
        option = part.partition("=")[0]
        if skip or part in ("--force", "--json"):
            skip = False
        # "--out DIR" takes the next part too, "--out=DIR" does not.
        elif option in _PLACES:
            skip = part == option
        else:
            said.append(part)
    return shlex.join(["holdfast", *said])


def _columns() -> int:
    # One width where nobody looks, so that the output in files and tests does not depend on a terminal.
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDTH


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    text_columns: int = 1,
    whole_columns: int = 0,
) -> Table:
    """Return a table whose first `text_columns` columns are text on the left and the rest numbers on the right.

    Of text that is too wide the first `whole_columns` are not folded.
    """
    from models.table import Column, Table  # noqa: PLC0415

    made = (Column(head, number=k >= text_columns, whole=k < whole_columns) for k, head in enumerate(columns))
    return Table(title, tuple(made), tuple(map(tuple, rows)))


def printed(given: Table) -> Any:
    """Return the table as rich prints it."""
    from rich.box import SIMPLE_HEAD  # noqa: PLC0415 - only where something is shown
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    title = clean(given.title)
    # A title in one line may be wider than the table, a longer one has lines as wide as the table.
    said = Text(title, overflow="ignore") if len(title) <= _WIDTH else Text(title, overflow="fold")
    made = RichTable(
        title=said,
        title_justify="left",
        title_style="bold",
        caption=Text(clean(given.note)) if given.note else None,
        caption_justify="left",
        box=SIMPLE_HEAD,
        pad_edge=False,
    )
    cells = given.cells
    for column, (head, unbroken, least) in zip(given.columns, _layout(given, cells), strict=True):
        made.add_column(
            Text(head),
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=unbroken,
            min_width=max([least, *map(len, column.head.split())]),  # a word of a head is never broken
        )
    for row in cells:
        # `Text` and not `str`: rich would read brackets in a name as markup.
        made.add_row(*(Text(clean(cell)) for cell in row))
    return made


def _layout(given: Table, cells: Sequence[Sequence[str]]) -> _Layout:
    """Return how each column is printed where a terminal has too little room for all.

    rich takes room from the widest columns, also from those that have none to give, and then cuts the last one. So in a
    table that is too wide numbers keep their width: heads get more lines, and then texts less room.
    """
    return _layout_with_room(given, cells) or [(column.head, column.whole, 1) for column in given.columns]


def _layout_with_room(given: Table, cells: Sequence[Sequence[str]]) -> _Layout | None:
    """Return the same; None where no layout has room for all numbers. The edges, which are blank, can do without.

    A word of a text, such as the name of a host, is broken where neither that nor heads in more lines make room for it.
    """
    room = _columns() - 3 * len(given.columns)
    tried = (_layout_within(wide, given, cells, kept) for kept in (True, False) for wide in (room, room + 2))
    return next((found for found in tried if found), None)


def _layout_within(room: int, given: Table, cells: Sequence[Sequence[str]], keeps_words: bool) -> _Layout | None:
    """Return the same, for columns that take so much room in all."""
    columns = given.columns
    widest = [max((len(row[k]) for row in cells), default=0) for k in range(len(columns))]
    heads = [column.head for column in columns]
    if sum(map(max, widest, map(len, heads))) <= room:
        return [(column.head, column.whole, 1) for column in columns]
    whole = [column.whole or column.number for column in columns]
    words = [_longest_word([row[k] for row in cells]) if keeps_words else 1 for k in range(len(columns))]
    for least, lines in product(_TEXTS, range(1, _MOST_LINES)):
        heads = [_folded(column.head, width, lines) for column, width in zip(columns, widest, strict=True)]
        taken = [
            max(width if unbroken else min(width, max(least, word)), 1, *map(len, head.splitlines()))
            for head, width, unbroken, word in zip(heads, widest, whole, words, strict=True)
        ]
        if sum(taken) <= room:
            return list(zip(heads, whole, words, strict=True))
    return None


def _longest_word(texts: Iterable[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=1)


def in_parts(given: Table, keys: int) -> list[Table]:
    """Return the table as one that has room, or as several: each has the first `keys` columns, and the next others."""
    parts: list[list[int]] = []
    for position in range(keys, len(given.columns)):
        longer = [*range(keys), *parts[-1], position] if parts else []
        if parts and _layout_with_room(given.of(longer), given.of(longer).cells):
            parts[-1].append(position)
        else:
            parts.append([position])
    return [given.of([*range(keys), *part]) for part in parts] or [given]


def _folded(head: str, width: int, lines: int) -> str:
    """Return the head in at most so many lines if its words allow that, no wider than that takes."""
    widths = range(max(width, *map(len, head.split()), 1), len(head) + 1)
    found = (textwrap.wrap(head, most, break_on_hyphens=False) for most in widths)
    return "\n".join(next((parts for parts in found if len(parts) <= lines), [head]))


def show(*parts: Table | str) -> None:
    """Print tables and plain lines to stdout, 80 columns wide where it is no terminal."""
    from rich.console import Console  # noqa: PLC0415

    # Names such as ":smile:" or "[red]" are shown as they are.
    console = Console(width=None if sys.stdout.isatty() else _WIDTH, markup=False, highlight=False, emoji=False)
    for part in parts:
        console.print(clean(part, lines=True) if isinstance(part, str) else printed(part))
