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


@pytest.mark.parametrize("catch_up", ["9.09 s", "90.9 ms"])
def test_a_host_with_a_mark_keeps_its_name_in_one_line(catch_up: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A head gets two lines for it, and the table does without the blank at its right edge."""
    heads = ("host", "run", "detect", "allocate", "restart", "restore", "catch up", "total")
    times = ("0", "88.5 ms", "21.2 s", "1.23 s", "2.56 s", catch_up, "44.8 s")
    show(table("Recoveries", heads, [("taskmanager-3 (while down)", *times), ("taskmanager-0", *times)]))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if "taskmanager" in line] == ["taskmanager-3", "taskmanager-0"]
    assert max(map(len, lines)) <= 80
    assert sum("44.8 s" in line for line in lines) == 2
