"""Decisions of a run as they are read."""

from __future__ import annotations

from models.records.decisions import Decision, decisions, sentence
from models.records.tables import RunRecords


def said(records: RunRecords) -> list[tuple[int, str, str]]:
    """(instant [ns], sentence, reason) of each decision."""
    return [(at, sentence(one), one.reason) for at, one in decisions(records.tables["decisions"])]


def said_in_rows(rows: list[tuple[object, ...]]) -> list[str]:
    """The sentences of rows of the recorder."""
    return [sentence(Decision(*map(str, row[1:]))) for row in rows]
