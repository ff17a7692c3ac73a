"""The document of a summary, as `run --json` prints it; for the tests of its figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.documents import to_document
from analysis.runs.summary import summarise
from models.records.tables import RunRecords
from models.scenario.scenario import Scenario


def document_of(scenario: Scenario, records: Sequence[RunRecords]) -> dict[str, Any]:
    document: dict[str, Any] = to_document(summarise(scenario, records))
    return document
