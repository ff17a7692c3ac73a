"""Show that recorded digests change by new names and new columns alone, and record the new ones.

Run once, from the root: `PYTHONPATH=.:tests:tests/sim:tests/sim/kernel python tests/sim/map_digests.py`. Of each
recorded run the old form is made of the new rows: columns with their first names, and the sentence and the reason of a
decision in place of its columns. Its digest has to be the recorded one. Only then that of the new form is recorded.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from unittest.mock import patch

import test_unchanged as unchanged

from models.records.decisions import Decision, decisions, sentence
from models.records.tables import RunRecords
from sim.control.cluster_view import ClusterView

FORMERLY = {"lost_partitions": "lost_units", "created_ns": "birth_ns", "checkpoint_host": "holder"}
RENAMED, FIRST = "the planned checkpoint host", "the planned holder"
OLD, NEW = unchanged.RECORDED["tables"], {**unchanged.RECORDED["tables"], "decisions": ["at_ns", *Decision._fields]}


def columns(records: RunRecords, *, old: bool) -> Iterator[tuple[str, list[str]]]:
    for table, names in (OLD if old else NEW).items():
        for name in names:
            if (table, name) in (("decisions", "what"), ("decisions", "why")):
                made = [one for _, one in decisions(records.tables[table])]
                values = [sentence(one) if name == "what" else one.reason for one in made]
            else:
                values = list(map(str, records.tables[table][name].tolist()))
            if old:
                values = [value.replace(RENAMED, FIRST) for value in values]
            yield f"{table}.{FORMERLY.get(name, name) if old else name}:", values


def digest(records: RunRecords, *, old: bool) -> str:
    found = hashlib.sha256()
    for head, values in columns(records, old=old):
        found.update(head.encode())
        found.update("\n".join(values).encode())
    found.update(repr((records.operators, records.tasks, records.task_operator, records.hosts)).encode())
    return found.hexdigest()


def runs(name: str) -> Iterator[RunRecords]:
    """The ways in which a run was recorded: as it is, with links that are first in first out, knowing at once."""
    yield unchanged.rows_of(name, unchanged.CompiledPlane)
    yield unchanged.rows_of(name, unchanged.CompiledPlane, sharing="fifo")
    with patch.object(ClusterView, "died", unchanged.knows_at_once):
        yield unchanged.rows_of(name, unchanged.CompiledPlane)
        yield unchanged.rows_of(name, unchanged.CompiledPlane, sharing="fifo")


def main() -> None:
    recorded = dict(unchanged.RECORDED)
    groups = [group for group in recorded if group != "tables"]
    # Digests that were replaced when trims changed are of no run any more.
    recorded["digests"] = {k: v for k, v in recorded["digests"].items() if k not in recorded["trimmed_on_arrival"]}
    equal = 0
    for group in groups:
        for name, before in recorded[group].items():
            same = next((one for one in runs(name) if digest(one, old=True) == before), None)
            if same is None:
                raise SystemExit(f"{group}: {name}: no run gives the recorded digest in its old form")
            recorded[group] = recorded[group] | {name: digest(same, old=False)}
            equal += 1
    recorded["tables"] = NEW
    unchanged.FILE.write_text(json.dumps(recorded, indent=1) + "\n")
    print(f"{equal} digests are equal in their old form; the new ones are recorded")


if __name__ == "__main__":
    main()
