"""What `run` shows at 80 columns, and the command that its page gives."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast import cli
from scenarios.library import names


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        cli.main(("run", *arguments))
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", names())
def test_what_is_shown_fits_80_columns(capsys: pytest.CaptureFixture[str], name: str) -> None:
    out = shown(capsys, name, "--set", "replications=1")
    assert out.count("operator ") >= 1
    assert max(map(len, out.splitlines())) <= 80
    assert "…" not in out


def test_bounded_queues_have_a_table_of_places_and_lag(capsys: pytest.CaptureFixture[str]) -> None:
    out = shown(capsys, "backpressure", "--set", "duration=50 s")
    table = out.split("Bounded queues")[1]
    rows = {line.split()[0]: line.split() for line in table.splitlines() if line.strip() and "%" in line}
    assert rows["enrich"][1:4] == ["50", "100.0", "%"]
    assert int(rows["orders"][-1].replace(",", "")) > 1000
    assert "Bounded queues" not in shown(capsys, "mm1", "--set", "duration=20 s")


def test_targets_and_what_came_out_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in shown(capsys, "crash-recovery").split("Targets")[1].splitlines()]
    assert ["lost", "0", "0", "met"] in rows
    assert any(row[:3] == ["recovery", "30", "s"] and row[-1] == "met" for row in rows)


def test_the_page_gives_the_command_with_all_that_was_set(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    shown(capsys, "mm1", "--set", "duration=20 s", "--set", "seed=4", "--out", str(tmp_path / "out"))
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "holdfast run mm1 --set &#39;duration=20 s&#39; --set seed=4" in page
