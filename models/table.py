"""Tables as values: the terminal and the pages print the same one, each in its own way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

_FEW = 12  # rows that need no search


@dataclass(frozen=True)
class Column:
    """A column: its head, how its values are written, and whether they are numbers, which stand on the right.

    `form`: value -> text. `of` is the attribute, with dots, that `rows_of` takes the values from. A column of sentences
    (`prose`) may be broken into lines. A `wide` column is for pages only: a terminal has 80 characters. A `whole` one
    is never folded on a terminal.
    """

    head: str
    form: Callable[[Any], str] = str
    of: str = ""
    number: bool = True
    prose: bool = False
    wide: bool = False
    whole: bool = False


@dataclass(frozen=True)
class Table:
    """Columns and rows of values; the value that terminal and page print.

    `rows`: one tuple for each row, a value for each column. `name`: identity on a page. `note`: what was left out.
    `marked`: position of a row that stands out. Where `facet` is given the table can be searched on a page, and
    `facets` has its value for each row. `brief_title` is the title on a terminal.

    >>> columns = (Column("host", number=False), Column("load", "{:.0%}".format))
    >>> table = Table("Hosts", columns, (("a", 0.5), ("b", 0.75)))
    >>> table.cells
    (('a', '50%'), ('b', '75%'))
    """

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    name: str = ""
    note: str = ""
    marked: int | None = None
    facet: str = ""
    facets: tuple[str, ...] = ()
    brief_title: str = ""

    @property
    def cells(self) -> tuple[tuple[str, ...], ...]:
        """Return the rows as text."""
        return tuple(
            tuple(column.form(value) for column, value in zip(self.columns, row, strict=True)) for row in self.rows
        )

    @property
    def heads(self) -> tuple[str, ...]:
        """Return the heads of all columns."""
        return tuple(column.head for column in self.columns)

    @property
    def brief(self) -> Table:
        """Return the table for a terminal: without wide columns, and with the brief title."""
        kept = self.of([position for position, column in enumerate(self.columns) if not column.wide])
        return replace(kept, title=self.brief_title or self.title)

    def of(self, positions: Sequence[int]) -> Table:
        """Return the table with the columns at these positions."""
        rows = tuple(tuple(row[k] for k in positions) for row in self.rows)
        return replace(self, columns=tuple(self.columns[k] for k in positions), rows=rows)

    @property
    def searched(self) -> bool:
        """Return whether it is so long that a reader would search it."""
        return bool(self.facet) and len(self.rows) > _FEW

    @property
    def choices(self) -> tuple[tuple[str, int], ...]:
        """Return values of `facets`, and how many rows have each; none where all are the same."""
        found = {one: self.facets.count(one) for one in dict.fromkeys(self.facets)}
        return tuple(found.items()) if len(found) > 1 else ()

    def cut(self, most: int) -> Table:
        """Return the first `most` rows, and a note about the others."""
        if len(self.rows) <= most:
            return self
        note = f"The first {most:,} of {len(self.rows):,} rows."
        return replace(self, rows=self.rows[:most], facets=self.facets[:most], note=note)


def rows_of(values: Iterable[object], columns: Sequence[Column]) -> tuple[tuple[Any, ...], ...]:
    """Return a row for each value, with the attributes that the columns name."""
    getters = [attrgetter(column.of) for column in columns]
    return tuple(tuple(get(value) for get in getters) for value in values)


def columns_of(
    heads: Sequence[str], *, texts: int | None = None, numbers: Sequence[bool] = (), prose: Sequence[int] = ()
) -> tuple[Column, ...]:
    """Return columns of cells that are text already: the first `texts` are no numbers, or as `numbers` says."""
    given = numbers if texts is None else [position >= texts for position in range(len(heads))]
    return tuple(
        Column(head, number=number, prose=position in prose)
        for position, (head, number) in enumerate(zip(heads, given, strict=True))
    )
