"""The scenarios that come along: each is valid, and found by its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from models.errors import InputError
from models.scenario.rules import not_simulated
from models.steady_state.estimate import check_limits, estimate
from models.steady_state.flow import flows
from models.steady_state.load import expected_load
from scenarios.files.scenario import missing_files, names, path_of, read_scenario, resolve, scenario_text, text_of


def test_the_four_examples_are_there() -> None:
    assert {"backlog", "crash-recovery", "mm1", "word-count"} <= set(names())


@pytest.mark.parametrize("name", names())
def test_each_is_valid_says_what_it_is_and_can_be_run(name: str) -> None:
    loaded = read_scenario(resolve(name))
    assert loaded.scenario.name
    assert not_simulated(loaded.scenario) == []
    assert check_limits(loaded.scenario, estimate(loaded.scenario)) is None  # type: ignore[func-returns-value]
    assert text_of(name) == path_of(name).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name", ["backlog", "backpressure", "crash-recovery", "elasticity", "mm1", "windowed-join", "word-count"]
)
def test_the_examples_need_no_other_file(name: str) -> None:
    assert list(missing_files(read_scenario(path_of(name)))) == []


def test_the_single_queue_has_the_utilisation_that_its_comment_is_about() -> None:
    scenario = read_scenario(path_of("mm1")).scenario
    assert expected_load(scenario).operators["server"].utilisation.tolist() == [0.8]


def test_the_backlog_is_above_capacity_for_a_while_and_below_on_average() -> None:
    load = expected_load(read_scenario(path_of("backlog")).scenario).operators["sessions"]
    assert load.utilisation.max() < 1 < load.peak_utilisation


def test_the_small_crash_is_small() -> None:
    scenario = read_scenario(path_of("crash-recovery")).scenario
    assert sum(flow.rate_in.mean_per_s for flow in flows(scenario).values()) * 60 < 100_000


def test_a_file_of_that_name_wins_over_the_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = read_scenario(path_of("mm1")).scenario
    (tmp_path / "word-count").write_text(scenario_text(scenario), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert resolve("word-count") == Path("word-count")
    assert resolve("mm1") == path_of("mm1")


@pytest.mark.parametrize("name", ["wordcount", "word_count", "WORD-COUNT", "a\0b"])
def test_an_unknown_name_is_a_fault(name: str) -> None:
    with pytest.raises(InputError) as caught:
        resolve(name)
    assert caught.value.faults[0].rule == "is neither a file nor a scenario of the library"


@pytest.mark.parametrize("name", ["../library/mm1", "mm1.toml", "/etc/passwd", ""])
def test_the_library_gives_out_its_own_files_alone(name: str) -> None:
    with pytest.raises(InputError, match="there is no scenario of this name"):
        text_of(name)
