"""The phases of recovery from each failure of a host, from the rows of its key groups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from analysis.runs.run_summary import Recovery
from analysis.statistics import seconds
from models.records.tables import NEVER, RunRecords

_Table = Mapping[str, np.ndarray]


def recoveries(records: Sequence[RunRecords]) -> tuple[Recovery, ...]:
    """Return one entry for each failure of a host, by replication, time and host; an instant that never came is None.

    `detect_s` = detected - failed, `restore_s` = last restored - detected, `replay_s` = last replayed - last
    restored, `catch_up_s` = from then until the last task downstream of the recovered ones has caught up, each at
    least 0; `total_s` is their sum. A phase that ended for some key groups only has not ended. A host that had
    nothing on it is recovered when its failure is detected. `key_groups` counts what was lost with the host. `cause` is
    crash, or suspicion where the host lived and was fenced.
    """
    return tuple(entry for one in records for entry in _of_replication(one))


def _of_replication(one: RunRecords) -> list[Recovery]:
    failures, rows = one.tables["failures"], one.tables["recoveries"]
    keys = {(int(at), int(host)) for at, host in zip(failures["failed_ns"], failures["host"], strict=True)}
    return [_recovery(one, host, at, _rows(failures, at, host), _rows(rows, at, host)) for at, host in sorted(keys)]


def _rows(table: _Table, at: int, host: int) -> dict[str, np.ndarray]:
    chosen = (table["failed_ns"] == at) & (table["host"] == host)
    return {name: column[chosen] for name, column in table.items()}


def _recovery(one: RunRecords, host: int, failed: int, failure: _Table, rows: _Table) -> Recovery:
    groups = len(rows["failed_ns"])
    detected = _last(failure["detected_ns"])
    if groups < failure["lost_partitions"].sum():
        ends = [detected, None, None, None]  # nobody has taken over some of what was lost
    elif not groups:
        ends = [detected] * 4  # nothing was lost
    else:
        ends = [detected, _last(rows["restored_ns"]), _last(rows["replayed_ns"]), _last(failure["caught_up_ns"])]
    lengths: list[int | None] = []
    before: int | None = failed
    for end in ends:
        known = before is not None and end is not None
        lengths.append(max(0, end - before) if known else None)  # type: ignore[operator]
        # A phase that ends before the one in front of it has length 0: time does not run backwards.
        before = max(before, end) if known else None  # type: ignore[type-var]
    total = None if None in lengths else sum(length for length in lengths if length is not None)
    detect_s, restore_s, replay_s, catch_up_s = (None if length is None else seconds(length) for length in lengths)
    return Recovery(
        one.replication,
        one.hosts[host],
        seconds(failed),
        detect_s,
        restore_s,
        replay_s,
        catch_up_s,
        None if total is None else seconds(total),
        cause="suspicion" if (failure["cause"] == "suspicion").all() else "crash",
        key_groups=int(failure["lost_partitions"].sum()),
        replayed=int(rows["replayed"].sum()),
        bytes=int(rows["bytes"].sum()),
    )


def _last(instants: np.ndarray) -> int | None:
    """Return the last of the instants [ns]; None when there is none or one never came."""
    if not instants.size or (instants == NEVER).any():
        return None
    return int(instants.max())
