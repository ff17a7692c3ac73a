"""The reference pages are what the code says now."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import reference
from holdfast.file_kinds import KINDS, described
from models.records.tables import TABLES
from models.scenario.file_keys import fields_of
from scenarios.files.parquet import units_of
from scenarios.runs.store import DERIVED, OF_HISTOGRAMS, RAW, STORED, write_run

PAGES = reference.pages()
"""All pages, made once."""


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    written = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert written == PAGES[name], "run: python -m holdfast.reference"


def test_every_key_and_every_record_is_on_its_page() -> None:
    pages = PAGES
    assert {path.name for path in reference.FOLDER.iterdir()} == set(pages) | reference.WRITTEN_BY_HAND
    for kind in KINDS:
        assert all(f"| `{key}` |" in pages[f"{kind}.md"] for key in fields_of(described(kind))), kind
    assert all(f"### `{name}.parquet`" in pages["records.md"] for name in (*TABLES, *DERIVED))


def test_every_public_name_is_on_the_page_of_the_api_with_an_example() -> None:
    page = reference.api_page()
    assert re.findall(r"^### `(\w+)`$", page, re.MULTILINE) == sorted(
        holdfast.__all__, key=lambda name: page.index(f"### `{name}`\n")
    )
    missing = [name for name in holdfast.__all__ if ">>>" not in reference.examples_of(name)]
    assert missing == []
    functions = [name for name in holdfast.__all__ if inspect.isfunction(getattr(holdfast, name))]
    assert [name for name in functions if f"{name}(" not in reference.examples_of(name)] == []


def rows_of(page: str) -> dict[str, list[list[str]]]:
    """File -> [column, type, unit, meaning] of each row of its table."""
    found: dict[str, list[list[str]]] = {}
    for part in page.split("### `")[1:]:
        name, _, table = part.partition("`")
        rows = [line for line in table.splitlines() if line.startswith("| `")]
        found[name] = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]
    return found


def test_the_page_of_records_describes_the_files_of_a_run(make: Any, tmp_path: Path) -> None:
    write_run(tmp_path / "run", "", {}, [make.random(1)], raw=True)
    write_run(tmp_path / "binned", "", {}, [make.binned(make.random(1))])
    added = [tmp_path / "binned" / f"{name}.parquet" for name in OF_HISTOGRAMS]
    files = sorted([*(tmp_path / "run").glob("*.parquet"), *added], key=lambda path: path.name)
    rows = rows_of(reference.records_page())
    assert sorted(rows) == [path.name for path in files]
    for path in files:
        units = units_of(path)
        assert [(row[0].strip("`"), row[2]) for row in rows[path.name]] == [(k, u or "-") for k, u in units.items()]
        assert rows[path.name][0][:2] == ["`replication`", "int32"]


def test_the_page_of_records_says_what_raw_adds_and_speaks_of_names() -> None:
    page = reference.records_page()
    always, raw = page.split("## Only with `--raw`")
    assert list(rows_of(always)) == [f"{name}.parquet" for name in (*DERIVED, *STORED, *OF_HISTOGRAMS)]
    assert list(rows_of(raw)) == [f"{name}.parquet" for name in RAW]
    kinds = {row[0]: row[1] for rows in rows_of(page).values() for row in rows}
    assert {kinds[f"`{name}`"] for name in ("operator", "task", "host", "owner", "checkpoint_host", "target")} == {
        "text"
    }
    assert "index into" not in page
    assert "-1" not in page


def test_every_row_of_a_table_has_a_meaning() -> None:
    for name, text in PAGES.items():
        rows = [line for line in text.splitlines() if line.startswith("| `")]
        assert rows or name == "api.md"  # which has sections
        assert [line for line in rows if line.endswith("|  |")] == [], name


def test_defaults_are_shown_with_their_units() -> None:
    page = reference.keys_page("scenario")
    assert '| `interval` | quantity, as in `"5 s"` | `"5 s"` |' in page
    assert '| `warmup` | quantity, as in `"5 s"` | `"0 s"` |' in page
