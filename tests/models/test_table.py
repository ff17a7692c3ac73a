"""Tables as values: their text, their brief form for terminals, and how they are cut."""

from __future__ import annotations

from dataclasses import dataclass

from models import display
from models.table import Column, Table, columns_of, rows_of


@dataclass(frozen=True)
class Inner:
    p99: float | None


@dataclass(frozen=True)
class Row:
    name: str
    wait: Inner


COLUMNS = (
    Column("operator", of="name", number=False),
    Column("wait p99", display.duration, "wait.p99", wide=True),
)


def made(count: int, **given: object) -> Table:
    rows = rows_of([Row(f"o{k}", Inner(k / 10 or None)) for k in range(count)], COLUMNS)
    return Table("Waits", COLUMNS, rows, **given)  # type: ignore[arg-type]


def test_cells_are_values_in_the_form_of_their_column() -> None:
    assert made(2).rows == (("o0", None), ("o1", 0.1))
    assert made(2).cells == (("o0", display.NONE), ("o1", "100 ms"))


def test_the_brief_form_has_no_wide_columns() -> None:
    brief = made(2, brief_title="W").brief
    assert (brief.title, brief.heads, brief.rows) == ("W", ("operator",), (("o0",), ("o1",)))
    assert made(1).brief.title == "Waits"


def test_a_table_that_is_cut_says_so_and_keeps_facets_with_their_rows() -> None:
    table = made(5, facet="kind", facets=("a", "b", "a", "b", "b"))
    assert table.cut(5) is table
    assert table.choices == (("a", 2), ("b", 3))
    cut = table.cut(3)
    assert (len(cut.rows), cut.facets, cut.note) == (3, ("a", "b", "a"), "The first 3 of 5 rows.")


def test_only_long_tables_with_a_facet_are_searched() -> None:
    assert not made(13).searched
    assert made(13, facet="kind", facets=("a",) * 13).searched
    assert not made(12, facet="kind", facets=("a",) * 12).searched
    assert made(13, facet="kind", facets=("a",) * 13).choices == ()


def test_columns_of_texts_say_which_are_numbers_and_sentences() -> None:
    columns = columns_of(("a", "b", "c"), texts=2, prose=(1,))
    assert [(one.head, one.number, one.prose) for one in columns] == [
        ("a", False, False),
        ("b", False, True),
        ("c", True, False),
    ]
    assert [one.number for one in columns_of(("a", "b"), numbers=(True, False))] == [True, False]
