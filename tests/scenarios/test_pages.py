"""A page on disk: whole or not at all, never over another one unasked."""

from __future__ import annotations

import pytest

from models.errors import InputError
from scenarios.pages import write_report


def test_a_page_is_written_and_its_folders_made(tmp_path):
    path = write_report(tmp_path / "a" / "b.html", "<p>é</p>")
    assert path.read_text(encoding="utf-8") == "<p>é</p>"
    assert [entry.name for entry in path.parent.iterdir()] == ["b.html"]


def test_a_page_is_replaced_only_with_force(tmp_path):
    write_report(tmp_path / "r.html", "one")
    with pytest.raises(InputError, match="not overwritten"):
        write_report(tmp_path / "r.html", "two")
    assert (tmp_path / "r.html").read_text() == "one"
    write_report(tmp_path / "r.html", "two", force=True)
    assert (tmp_path / "r.html").read_text() == "two"


def test_a_directory_or_a_file_in_the_way_is_an_input_error(tmp_path):
    with pytest.raises(InputError, match="path of a file"):
        write_report(tmp_path, "x", force=True)
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be written"):
        write_report(tmp_path / "file" / "r.html", "x")


def test_text_that_cannot_be_written_leaves_the_old_page(tmp_path):
    write_report(tmp_path / "r.html", "one")
    with pytest.raises(UnicodeEncodeError):
        write_report(tmp_path / "r.html", "\ud800", force=True)
    assert (tmp_path / "r.html").read_text() == "one"
    assert [entry.name for entry in tmp_path.iterdir()] == ["r.html"]
