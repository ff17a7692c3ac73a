"""Queries as text: the paper's example, what is shared, and what is no query."""

from __future__ import annotations

import tomllib

import pytest

from models.errors import InputError
from models.queries.description import query_set_from
from scenarios.queries.files import LoadedQueries, loaded
from scenarios.queries.language import compile_query

PAPER = """
INSERT INTO outStream
SELECT compName, avg(tick)
FROM tickStream WITHIN 600 seconds
GROUP BY compName
WHERE compName = "SAP";
"""


def kinds(text: str) -> list[str]:
    return [entry.kind for entry in compile_query("q", text).values()]


def refused(text: str) -> str:
    with pytest.raises(InputError) as caught:
        compile_query("queries.q.text", text)
    return str(caught.value)


def test_the_papers_example_is_a_source_a_filter_an_aggregation_and_a_destination() -> None:
    found = compile_query("q", PAPER)
    assert [entry.kind for entry in found.values()] == ["source", "filter", "aggregation", "destination"]
    assert found["source"].stream == "tickStream"
    assert found["filter"].predicate == 'compName = "SAP"'
    assert (found["aggregation"].predicate, found["aggregation"].window_s) == ("avg(tick) by compName", 600.0)
    assert (found["destination"].stream, found["destination"].inputs) == ("outStream", ("aggregation",))


def test_joins_and_sequences_filter_their_streams_before_they_meet() -> None:
    text = "INSERT INTO o SELECT * FROM a {} b ON key WITHIN 1 min WHERE a.x > 3 AND y = 2"
    joined = compile_query("q", text.format("JOIN"))
    assert joined["join"].inputs == ("filter_1", "source_2")
    assert joined["join"].window_s == 60.0
    assert joined["filter_1"].predicate == "x > 3"
    assert (joined["filter"].predicate, joined["filter"].inputs) == ("y = 2", ("join",))
    assert kinds(text.format("THEN")) == ["source", "filter", "source", "sequence", "filter", "destination"]


def test_select_is_a_projection_or_nothing() -> None:
    assert kinds("INSERT INTO o SELECT x, y FROM a") == ["source", "projection", "destination"]
    assert kinds("INSERT INTO o SELECT * FROM a") == ["source", "destination"]
    assert compile_query("q", "INSERT INTO o SELECT count(*) FROM a")["aggregation"].predicate == "count(*)"


def files(*texts: str) -> LoadedQueries:
    raw = {
        "streams": {"tickStream": {"rate": "1000 /s"}},
        "queries": {f"q{k}": {"text": t} for k, t in enumerate(texts)},
    }
    return loaded(query_set_from(raw))


def test_texts_that_say_the_same_in_other_words_share_their_operators() -> None:
    other = (
        "insert into others select AVG(tick), compName from tickStream within 10 minutes "
        "where compName = 'SAP' group by compName"
    )
    found = files(PAPER, other)
    assert found.table.n_operators == 5  # only the destinations differ
    assert files(PAPER, PAPER.replace("SAP", "IBM")).table.n_operators == 7  # they share the source
    two = "INSERT INTO o SELECT * FROM tickStream WHERE x > 1 AND y < 2"
    assert files(two, "INSERT INTO p SELECT * FROM tickStream WHERE y<2.0 AND x>1").table.n_operators == 4
    large = "INSERT INTO o SELECT * FROM tickStream WHERE x = 1234567{}"
    assert files(large.format(1), large.format(2)).table.n_operators == 5  # not the same number


def test_a_text_stands_in_a_file_beside_operators() -> None:
    raw = tomllib.loads(f'[streams.tickStream]\nrate = "100 /s"\n[queries.sap]\ntext = """{PAPER}"""\n')
    assert loaded(query_set_from(raw)).table.kinds == ("source", "filter", "aggregation", "destination")
    raw["queries"]["sap"]["operators"] = {"s": {"kind": "source", "stream": "tickStream"}}
    with pytest.raises(InputError, match=r"queries\.sap\.text = .*must not be given beside operators"):
        loaded(query_set_from(raw))
    with pytest.raises(InputError, match="is no stream"):
        loaded(query_set_from({"queries": {"q": {"text": PAPER}}}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("INSERT INTO o SELECT x FROM", "expected here: a name"),
        ("INSERT INTO o SELEC x FROM a", "line 1, column 15"),
        ("", "is not a query"),
        ("INSERT INTO o SELECT median(x) FROM a", "median: must be one of avg, sum, min, max, count"),
        ("INSERT INTO o SELECT x, avg(y) FROM a", "x: must stand in GROUP BY"),
        ("INSERT INTO o SELECT x FROM a GROUP BY x", "needs an aggregate in SELECT"),
        ("INSERT INTO o SELECT x FROM a WITHIN 5 s", "needs an aggregate, JOIN or THEN"),
        ("INSERT INTO o SELECT avg(x) FROM a WITHIN 0 s", "must be longer than zero"),
        ("INSERT INTO o SELECT * FROM a WHERE b.x = 1", "is about a stream that FROM has not: a"),
        ("INSERT INTO o SELECT * FROM a JOIN a ON k", "cannot be both inputs of a join"),
        ("INSERT INTO o SELECT * FROM a WHERE x = 1 WHERE y = 2", "stands there twice"),
    ],
)
def test_what_is_no_query_is_refused_with_its_place(text: str, said: str) -> None:
    assert said in refused(text)
    assert "queries.q.text" in refused(text)
