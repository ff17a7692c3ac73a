"""The findings of a study as a document: the profile, each method's plan, and the designs beside the first one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from analysis.comparison import Difference, Replications, compare
from analysis.runs.metrics import Metrics, metrics_of
from analysis.runs.run_summary import RunSummary
from scenarios.files.profiles import profile_summary
from scenarios.pages.designs import OVERHEAD as OVERHEAD_KINDS
from scenarios.planning.plan_files import plan_to_dict
from scenarios.studies.study import Study, StudyDesign
from scenarios.sweeps.summary import difference_entry

ASSISTED, USABLE, MOVES = "elasticity.assisted_share", "elasticity.usable_share", "moves"
PAUSE, WORST = "migrations.pause_s.mean", "moves.worst_s.mean"
LATENCY, P99 = "latency_s.mean", "latency_s.p99"
OVERHEAD, NETWORK = "overhead.bytes_per_s", "overhead.network_share"
COST, RECOVERY = "hosts.cost_usd", "recoveries.total_s.max"
MEASURES: Mapping[str, str] = {
    ASSISTED: "of the moves off overloaded hosts, those to the host of the checkpoint",
    USABLE: "of the key groups on overloaded hosts, those whose checkpoint is on a host with room for them",
    MOVES: "moves of key groups that began",
    PAUSE: "mean pause of a move [s]",
    WORST: "longest time of a tuple in a move, mean over the moves [s]",
    LATENCY: "mean latency, source to sink [s]",
    P99: "99 % of tuples within [s]",
    OVERHEAD: "bytes of checkpoints and moves in a second",
    NETWORK: "their share of all bytes between hosts",
    COST: "cost of the hosts [USD]",
    RECOVERY: "slowest recovery, failure to caught up [s]",
}
SHORT: Mapping[str, str] = {
    ASSISTED: "assisted",
    USABLE: "usable",
    MOVES: "moves",
    PAUSE: "pause of a move",
    WORST: "worst wait",
    LATENCY: "latency mean",
    P99: "latency p99",
    OVERHEAD: "overhead",
    NETWORK: "of all bytes",
    COST: "cost",
    RECOVERY: "recovery max",
}
"""Names in tables."""
_TUPLES = "data"  # of the kinds of messages, those between hosts that are no overhead


def replications_of(design: StudyDesign) -> Replications:
    """Return replication -> metrics of a design, with those that only a study has."""
    return {one.replication: metrics_of(one.summary) | _own(one.summary) for one in design.runs}


def _own(summary: RunSummary) -> Metrics:
    """Return the measures that only a study has: moves, overhead [B/s], its share of bytes, longest wait [s]."""
    messages = summary.messages
    more = sum(messages[kind].bytes for kind in OVERHEAD_KINDS if kind in messages)
    sent = more + (messages[_TUPLES].bytes if _TUPLES in messages else 0)
    worst = [one.worst_s for one in summary.migrations if one.worst_s is not None]
    return {
        MOVES: float(len(summary.migrations)),
        OVERHEAD: more / (summary.duration_s - summary.warmup_s),
        NETWORK: more / sent if sent else None,
        WORST: sum(worst) / len(worst) if worst else None,
    }


def differences(study: Study, first: StudyDesign, second: StudyDesign) -> dict[str, Difference]:
    """Return measure -> two designs beside each other, run by run where they have the same seed."""
    one, other = replications_of(first), replications_of(second)
    seeds = {design.settings.get("seed", study.scenario.seed) for design in (first, second)}
    # A sweep may vary the seed itself: designs are paired only where both have the same random numbers.
    return {found.metric: found for found in compare(one, other, same_numbers=len(seeds) == 1, metrics=list(MEASURES))}


def findings(study: Study) -> dict[str, Any]:
    """Return the findings as one JSON document; their differences are those to the first design."""
    return {
        "scenario": study.scenario.name,
        "seed": study.scenario.seed,
        "method": study.method,
        "profile": profile_summary(study.profile),
        "hosts": list(study.loads.hosts),
        "checkpoints": [f"{operator}[{group}]" for operator, group in study.loads.names],
        "methods": {
            one.method: {
                # Wall time differs from run to run: without it the document has the same bytes every time.
                "plan": {key: value for key, value in plan_to_dict(one.plan, one.problem).items() if key != "wall_s"},
                "usable_share": one.usable.usable_share,
                "assisted_share": one.usable.assisted_share,
                "at_risk": int(one.usable.at_risk.sum()),
                "usable": int(one.usable.usable.sum()),
                "assisted": int(one.usable.assisted.sum()),
                "direct": int(one.usable.direct.sum()),
            }
            for one in study.planned
        },
        "measures": dict(MEASURES),
        "digest": study.sweep.digest,
        "designs": [_design(study, one) for one in study.designs],
        "failed": [
            {"point": row.point, "replication": row.replication, "status": row.status, "message": row.message}
            for row in study.sweep.failed
        ],
        "run": study.run.summary,
    }


def _design(study: Study, design: StudyDesign) -> dict[str, Any]:
    found = differences(study, study.designs[0], design)
    return {
        "label": design.label,
        "allocation": design.allocation,
        "protocol": design.protocol,
        "settings": dict(design.settings),
        "runs": [one.replication for one in design.runs],
        "measures": {
            name: {
                "mean": one.second.mean,
                "ci95": one.second.ci95,
                "difference": difference_entry(one) if design is not study.designs[0] else None,
            }
            for name, one in found.items()
        },
    }
