"""Sentences are made of decisions, and of each that is taken there is one."""

from __future__ import annotations

import numpy as np
import pytest

from models.records.decisions import Action, Decision, Verdict, decisions, sentence


@pytest.mark.parametrize("action", Action)
def test_every_action_has_a_sentence(action: Action) -> None:
    said = []
    for verdict in Verdict:
        try:
            said.append(sentence(Decision(action, "x[0]", "a-0", "b-1", verdict, "why")))
        except ValueError:
            continue
    assert said and len(set(said)) == len(said)


def test_a_sentence_names_who_and_where() -> None:
    assert sentence(Decision("move", "x[0]", "a-0", "b-1")) == "x[0] is to move to b-1"
    assert sentence(Decision("rescale", "count", "2", "4")) == "count goes from 2 to 4 tasks"


def test_a_decision_that_nobody_takes_has_none() -> None:
    with pytest.raises(ValueError, match="no sentence for 'fence' that is 'refused'"):
        sentence(Decision("fence", "a-0", verdict="refused"))


def test_rows_of_the_table_are_decisions() -> None:
    columns = {name: np.array([f"{name} {k}" for k in range(2)]) for name in Decision._fields}
    found = list(decisions({"at_ns": np.array([5, 7]), **columns}))
    assert [at for at, _ in found] == [5, 7]
    assert found[1][1] == Decision(*(f"{name} 1" for name in Decision._fields))
