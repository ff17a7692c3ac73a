"""Lines of facts keep below each other, and a page says the command without the places to which it wrote."""

from __future__ import annotations

import sys

import pytest

from holdfast.terminal import again, facts, show, table


def test_facts_that_need_several_lines_stay_in_their_column() -> None:
    said = " ".join(f"cause-{k}" for k in range(30))
    lines = facts([("window", "a year"), ("causes", said)], 21)
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"{'window':<21}a year"
    assert all(line.startswith(" " * 21) for line in lines[2:])
    assert " ".join(line[21:] for line in lines[1:]) == said


@pytest.mark.parametrize("length", [40, 80, 81, 200])
def test_no_title_of_a_table_is_cut(length: int, capsys: pytest.CaptureFixture[str]) -> None:
    title = ("word " * 50)[: length - 1] + "!"
    show(table(title, ("host", "total"), [("worker-0", "1 s")]))
    said = capsys.readouterr().out
    head, _, _ = said.partition(" host")
    assert head.replace("\n", " ").split() == title.split()
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["size", "a b.toml", "--report", "x.html", "--force"], "holdfast size 'a b.toml'"),
        (["fleet", "a.toml", "--out=x", "--workers", "2", "--seed", "3"], "holdfast fleet a.toml --seed 3"),
        (["failures", "a.csv", "--json", "--draws", "0", "--page=p.html"], "holdfast failures a.csv --draws 0"),
    ],
)
def test_a_page_says_what_was_asked_and_not_where_it_was_written(
    monkeypatch: pytest.MonkeyPatch, argv: list[str], said: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["holdfast", *argv])
    assert again() == said
