"""Methods of recovery: how partitions that a failure took come back, each method in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping

from models.scenario.scenario import Scenario
from sim.recovery.active_replication import ActiveReplication
from sim.recovery.changelog import RestoreFromChangelog
from sim.recovery.checkpoint import RestoreFromCheckpoint
from sim.recovery.elastic_upstream_backup import ElasticUpstreamBackup
from sim.recovery.empty import StartEmpty
from sim.recovery.method import RecoveryMethod
from sim.recovery.micro_batch import MicroBatch
from sim.recovery.region_restart import RegionRestart
from sim.recovery.source_backup import SourceBackup
from sim.recovery.state_management import StateManagement
from sim.recovery.synchronous_checkpoints import SynchronousCheckpoints
from sim.recovery.upstream_backup import UpstreamBackup
from sim.recovery.worker_restart import WorkerRestart

METHODS: Mapping[str, type[RecoveryMethod]] = {
    "none": StartEmpty,
    "checkpoint": RestoreFromCheckpoint,
    "synchronous-checkpoints": SynchronousCheckpoints,
    "region-restart": RegionRestart,
    "micro-batch": MicroBatch,
    "changelog": RestoreFromChangelog,
    "state-management": StateManagement,
    "elastic-upstream-backup": ElasticUpstreamBackup,
    "upstream-backup": UpstreamBackup,
    "source-backup": SourceBackup,
    "active-replication": ActiveReplication,
    "acker": StartEmpty,
}
"""The method of recovery for each `fault_tolerance.method` that is simulated."""


def method_of(scenario: Scenario) -> type[RecoveryMethod]:
    """Return the method of recovery of a scenario."""
    return WorkerRestart if scenario.workers.together else METHODS[scenario.fault_tolerance.method]
