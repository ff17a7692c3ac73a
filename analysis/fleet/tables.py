"""Tables of the summary of a fleet; the terminal shows their brief form, pages the whole."""

from __future__ import annotations

from analysis.fleet.fleet_summary import FleetSummary
from models import display
from models.table import Column, Table

_VERDICTS = ("begun", "done", "refused", "aborted")


def decisions_table(summary: FleetSummary) -> Table:
    """Return how many decisions there were of each action, by verdict."""
    count = {(one.action, one.verdict): one.count for one in summary.decisions}
    columns = (
        Column("action", number=False, brief="action"),
        *(Column(verdict, display.count, brief=verdict) for verdict in _VERDICTS),
    )
    actions = dict.fromkeys(action for action, _ in count)
    rows = tuple((action, *(count.get((action, verdict), 0) for verdict in _VERDICTS)) for action in actions)
    return Table("Decisions of all replications", columns, rows, "counts", brief_title="Decisions")
