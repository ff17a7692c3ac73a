"""`availability`: tables that fit a terminal, one JSON document, exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.cli import main
from scenarios.reliability.availability import Figure
from scenarios.reliability.tables import figure_text

EXAMPLE = Path(__file__).parents[2] / "examples" / "availability.toml"


def called(capsys, *arguments: object) -> tuple[int, str, str]:  # type: ignore[no-untyped-def]
    with pytest.raises(SystemExit) as left:
        main(["availability", *map(str, arguments)])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


def test_the_example_is_answered_in_tables_of_eighty_columns(capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, err = called(capsys, EXAMPLE)
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80
    assert "revenue" in out
    assert "p = 0.0025" in out


def test_json_is_one_document_with_the_p_of_the_command(capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, EXAMPLE, "--json", "--p", 0.5, "--p", 0.25)
    found = json.loads(out)
    assert code == 0
    assert [line["p"] for line in found["settings"]] == [0.5, 0.25]


def test_a_missed_target_is_exit_code_four(capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, err = called(capsys, EXAMPLE, "--target", 0.999)
    assert code == 4
    assert "All queries" in out
    assert "99.9 % allows 43.8 min a month." in out
    assert err == "1 of 2 queries miss 99.9 % in some setting\n"
    assert called(capsys, EXAMPLE, "--target", 0.99)[0] == 0


def test_a_sampled_answer_says_so(capsys) -> None:  # type: ignore[no-untyped-def]
    code, out, _ = called(capsys, EXAMPLE, "--method", "monte-carlo", "--runs", 1, "--p", 0)
    assert code == 0
    assert "≤ 0.0732 %" in out  # 3 / 4096
    assert "≤ 32.1 min" in out  # the same, of a month
    assert "an interval or a ≤ of such a value holds with 95 %" in out
    assert "Known to lie in" in out
    assert "0–0.0732 %" in out


def test_bounds_are_shown_with_the_digits_in_which_they_differ() -> None:
    shown = [
        figure_text(Figure(low, high, "bounds")) for low, high in ((0.1, 0.2), (0.0075, 0.007523), (0.1, 0.1 + 1e-9))
    ]
    assert shown == ["10–20 %", "0.75–0.753 %", "10–10.0000001 %"]
    assert figure_text(Figure(0.1, 0.3, "monte-carlo", 0.2)) == "~20 %"
    assert figure_text(None) == "–"


def test_many_settings_and_long_names_still_fit(capsys, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    names = [f"a_query_with_a_name_that_is_rather_long_{k}" for k in range(30)]
    document = {
        "hosts": ["h"],
        "operators": {"o": ["h"]},
        "queries": {name: ["o"] for name in names},
        "p": [0.0001 * k for k in range(1, 8)],
    }
    path = tmp_path / "many.json"
    path.write_text(json.dumps(document))
    code, out, _ = called(capsys, path)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "the last 5 of 7 settings" in out
    assert "20 of 30" in " ".join(out.split())


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--p", "1.5"], "error: --p = 1.5: must be a probability, between 0 and 1\n"),
        (
            ["--method", "guess"],
            "error: --method = guess: must be auto, exact, monte-carlo, stratified or importance-sampling\n",
        ),
        (["--method", "monte-carlo", "--runs", "0"], "error: --runs = 0: must be between 1 and 1e12\n"),
        (["--runs", "0"], "error: --runs = 0: must be between 1 and 1e12\n"),
        (["--workers", "0"], "error: --workers = 0: must be at least 1\n"),
        (["--target", "-1"], "error: --target = -1.0: must be between 0 and 1\n"),
    ],
)
def test_bad_input_is_exit_code_two_and_one_line(capsys, arguments: list[str], says: str) -> None:  # type: ignore[no-untyped-def]
    assert called(capsys, EXAMPLE, *arguments) == (2, "", says)


def test_a_replica_beside_its_primary_is_exit_code_two(capsys, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "bad.toml"
    path.write_text('hosts = ["a"]\np = 0.1\noperators.x = ["a", "a"]\nqueries.q = ["x"]\n')
    code, out, err = called(capsys, path)
    assert (code, out) == (2, "")
    assert err.startswith("error: operators.x[1] = a: has an instance of this operator already")


def test_single_points_of_failure_are_named_what_breaks_most_first(capsys, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "asked.toml"
    file.write_text(
        """
        hosts = ["a", "b", "c"]
        p = 0.01
        operators = { both = ["a", "b"], one = ["b"], wide = ["a", "b", "c"] }
        queries = { first = ["both", "one"], second = ["both"], third = ["wide"] }
        [domains.rack]
        hosts = ["a", "b"]
        """
    )
    code, out, _ = called(capsys, file)
    assert code == 0
    assert out.index(" rack             domain        2   first, second ") < out.index(
        " b                host          1   first "
    )
    assert "Fewest hosts or domains down that break a query: 1 (2 queries), 2 (1 query)." in out
    found = json.loads(called(capsys, file, "--json")[1])
    assert found["single_points"] == [
        {"kind": "domain", "name": "rack", "queries": ["first", "second"]},
        {"kind": "host", "name": "b", "queries": ["first"]},
    ]
    assert found["fewest_down"] == {"first": 1, "second": 1, "third": 2}


def test_without_a_single_point_of_failure_there_is_no_table_of_them(capsys) -> None:  # type: ignore[no-untyped-def]
    _, out, _ = called(capsys, EXAMPLE)
    assert "Single points" not in out
    assert "Fewest hosts or domains down that break a query: 2 (2 queries)." in out
