"""Where a run with replicas reports lost state no instance was live, and the partition had no checkpoint of its own.

Oracle: the records of the partitions at the instant of each report, which the kernel keeps and control does not see.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from replicated_jobs import drawn_crashes, replicated_job, run

from sim.kernel.event_loop.plane import CompiledPlane


class Report(NamedTuple):
    """What was there when a partition of a group with several instances was installed without all of its state."""

    own_checkpoint: bool
    live: list[int]


def reports(seeds: range, monkeypatch: pytest.MonkeyPatch) -> list[Report]:
    """Of all crashes of random jobs, where something is missing of groups that had a replica."""
    install, found = CompiledPlane.install, list[Report]()

    def noted(plane: CompiledPlane, partition: int) -> int:
        partitions, cluster = plane.state.partitions, plane._cluster
        instances = cluster.instances_of(cluster.group_of(partition))
        seen = Report(bool(partitions["stored"][partition]), [one for one in instances if partitions["live"][one]])
        missing = install(plane, partition)
        if missing and len(instances) > 1:
            found.append(seen)
        return missing

    monkeypatch.setattr(CompiledPlane, "install", noted)
    for seed in seeds:
        for crashes in drawn_crashes(seed, 5):
            if len(crashes) > 1:  # one alone loses nothing
                run(replicated_job(seed), CompiledPlane, crashes)
    return found


def test_state_is_lost_only_with_owner_replica_and_the_checkpoint_of_who_answered_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = reports(range(2000, 2020), monkeypatch)
    assert len(found) >= 10
    assert set(map(str, found)) == {str(Report(own_checkpoint=False, live=[]))}
