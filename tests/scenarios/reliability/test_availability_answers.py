"""Answers: the same by exact methods and by sampling, bounds that are said and narrowed, day and crews."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from plain_availability import random_queries

import scenarios.reliability.availability as module
from models.errors import InputError
from models.reliability.cuts import sandwich
from models.reliability.description import Availability, availability_from
from models.reliability.exact import Engine
from scenarios.reliability.availability import answer, document, read_availability

LONG_RUN = {"mttf": "9 d", "mttr": "1 d"}


def asked(n_hosts: int = 12, n_queries: int = 8, **keys: object) -> Availability:
    queries = random_queries(np.random.default_rng(3), n_hosts, n_queries)
    return availability_from(
        {
            "hosts": [f"h{k}" for k in range(n_hosts)],
            "operators": {f"o{k}": [f"h{host}" for host in hosts] for k, hosts in enumerate(queries.instances)},
            "queries": {f"q{k}": [f"o{op}" for op in ops] for k, ops in enumerate(queries.operators)},
            **({} if "times" in keys else {"p": 0.05}),
            **keys,
        }
    )


@pytest.mark.parametrize("method", ["monte-carlo", "stratified", "importance-sampling"])
def test_sampling_agrees_with_what_is_exact(method: str) -> None:
    """The figures' intervals at 95 %: of 12 at least 8 hold."""
    question = asked(domains={"r": {"hosts": ["h0", "h1"], "p": 0.01}})
    exact, found = answer(question).lines[0], answer(question, method=method, runs=100_000, seed=2).lines[0]
    pairs = [(exact.mean, found.mean), (exact.some, found.some), *zip(exact.queries, found.queries, strict=True)]
    pairs += [(exact.short[share], one) for share, one in found.short.items()]
    assert all(a.value is not None for a, _ in pairs if a is not None)
    held = [b.low <= a.value <= b.high for a, b in pairs if a is not None and b is not None and a.value is not None]
    assert sum(held) >= len(held) - 3


def test_the_mean_of_a_day_is_sampled_over_the_day() -> None:
    question = asked(times={"mttf": "9 d", "day": "1 d"})
    exact, found = (answer(question, method=by, runs=100_000).lines for by in ("exact", "monte-carlo"))
    assert [line.label for line in exact] == ["end of day", "mean of day"]
    for a, b in zip(exact, found, strict=True):
        assert b.mean.low <= (a.mean.value or math.nan) <= b.mean.high
    assert exact[0].mean.low > exact[1].mean.low
    assert exact[1].short[0.99].value == pytest.approx(exact[1].some.value if exact[1].some else 0, rel=1e-10)


def test_settings_of_different_kinds_stand_in_their_order() -> None:
    lines = answer(asked(times={**LONG_RUN, "day": "1 d"})).lines
    assert [line.label for line in lines] == ["long run", "end of day", "mean of day"]
    crews = answer(asked(times={**LONG_RUN, "crews": 12})).lines[0]
    assert [one.value for one in crews.queries] == pytest.approx([one.value for one in lines[0].queries], rel=1e-11)
    assert crews.some is not None
    assert lines[0].some is not None
    assert crews.some.value == pytest.approx(lines[0].some.value, rel=1e-11)
    assert {one.method for one in crews.queries} == {"chain"}
    fewer = answer(asked(times={**LONG_RUN, "crews": 1})).lines[0]
    assert all(a.low > b.low for a, b in zip(fewer.queries, crews.queries, strict=True))


def test_bounds_are_said_and_auto_samples_what_they_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Engine, "_by", lambda self, method, part: None)
    question = asked(domains={"r": {"hosts": ["h0", "h1", "h2"], "p": 0.01}}, p=0.3)
    monkeypatch.setattr("models.reliability.exact.bracketed", lambda cuts, chances, nodes: sandwich(cuts, chances))
    bounds, auto = (answer(question, method=by, runs=50_000).lines[0] for by in ("exact", "auto"))
    monkeypatch.undo()
    exact = answer(question).lines[0]
    assert "bounds" in {one.method for one in bounds.queries}
    assert bounds.mean.value is None
    assert exact.mean.value is not None
    assert any(one.method == "stratified" for one in (*auto.queries, auto.mean))
    for a, b in zip(exact.queries, bounds.queries, strict=True):
        assert b.low <= a.low * (1 + 1e-12)
        assert a.low <= b.high * (1 + 1e-12)


def test_small_failure_sets_narrow_what_factoring_leaves_of_some_broken() -> None:
    mass, low, high = np.array([0.7, 0.2, 0.05]), np.array([0.1]), np.array([0.9])
    found = module._some(low, high, "bounds", np.array(0.05), mass)
    assert (found.low, found.high) == pytest.approx((0.25, 0.3))
    assert module._some(low, low, "elimination", np.array(0.05), mass).value == 0.1


def test_a_target_is_missed_where_some_setting_does_not_show_it() -> None:
    question = availability_from(
        {"hosts": ["a"], "operators": {"x": ["a"]}, "queries": {"q": ["x"]}, "p": [0.001, 0.01], "target": 0.999}
    )
    assert answer(question).missed == ("q",)
    assert answer(question, p=[0.001]).missed == ()
    assert answer(question, target=0.99).missed == ()
    with pytest.raises(InputError, match="--target = 2: must be between 0 and 1"):
        answer(question, target=2)


def test_the_document_has_no_nan_and_all_queries() -> None:
    for question in (asked(), asked(times={**LONG_RUN, "crews": 2})):
        text = json.dumps(document(answer(question)), allow_nan=False)
        line = json.loads(text)["settings"][0]
        assert list(line["queries"]) == [f"q{k}" for k in range(8)]
        one = line["queries"]["q0"]
        assert one["down_s_per_month"] == pytest.approx(one["unavailability"] * 2_629_800)


@pytest.mark.parametrize(("text", "name"), [('{"p": 1', "a.json"), ("p = ", "a.toml"), ("", "a.txt")])
def test_files_that_cannot_be_read_are_refused(tmp_path, text: str, name: str) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(InputError):
        read_availability(path)
    with pytest.raises(InputError):
        read_availability(tmp_path / f"missing.{name}")


def test_a_json_file_says_the_same_as_a_toml_file(tmp_path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "a.json").write_text(
        '{"hosts": ["a"], "operators": {"x": ["a"]}, "queries": {"q": ["x"]}, "times": {"mttf": "1 d", "mttr": "1 h"}}'
    )
    (tmp_path / "a.toml").write_text(
        'hosts = ["a"]\noperators.x = ["a"]\nqueries.q = ["x"]\ntimes = {mttf = "1 d", mttr = "1 h"}\n'
    )
    assert read_availability(tmp_path / "a.json") == read_availability(tmp_path / "a.toml")


def test_what_a_method_cannot_do_is_refused() -> None:
    with pytest.raises(
        InputError, match="--method = magic: must be auto, exact, monte-carlo, stratified or importance-sampling"
    ):
        answer(asked(), method="magic")
    with pytest.raises(InputError, match="is for independent hosts"):
        answer(asked(times={**LONG_RUN, "crews": 2}), method="monte-carlo")
    assert module.METHODS[0] == "auto"
