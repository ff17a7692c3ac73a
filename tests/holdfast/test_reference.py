"""The reference pages are what the code says now."""

from __future__ import annotations

import pytest

from holdfast import reference
from models.keys import fields_of
from models.records import TABLES
from models.scenario import Scenario


@pytest.mark.parametrize("name", ["scenario.md", "cli.md", "records.md"])
def test_a_page_is_up_to_date(name: str) -> None:
    written = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert written == reference.pages()[name], "run: python -m holdfast.reference"


def test_every_key_and_every_record_is_on_its_page() -> None:
    pages = reference.pages()
    assert all(f"| `{key}` |" in pages["scenario.md"] for key in fields_of(Scenario))
    assert all(f"## `{name}`" in pages["records.md"] for name in TABLES)


def test_every_row_of_a_table_has_a_meaning() -> None:
    for name, text in reference.pages().items():
        rows = [line for line in text.splitlines() if line.startswith("| `")]
        assert rows
        assert [line for line in rows if line.endswith("|  |")] == [], name


def test_defaults_are_shown_with_their_units() -> None:
    page = reference.scenario_page()
    assert '| `interval` | quantity, as in `"5 s"` | `"5 s"` |' in page
    assert '| `warmup` | quantity, as in `"5 s"` | `"0 s"` |' in page
