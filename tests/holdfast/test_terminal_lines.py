"""Lines of facts keep below each other, and a page says the command without the places to which it wrote."""

from __future__ import annotations

import sys

import pytest

from holdfast.terminal import again, facts


def test_facts_that_need_several_lines_stay_in_their_column() -> None:
    said = " ".join(f"cause-{k}" for k in range(30))
    lines = facts([("window", "a year"), ("causes", said)], 21)
    assert max(map(len, lines)) <= 80
    assert lines[0] == f"{'window':<21}a year"
    assert all(line.startswith(" " * 21) for line in lines[2:])
    assert " ".join(line[21:] for line in lines[1:]) == said


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
