"""The state that managers of a run share: plan, clock, cluster, cluster view, recorder and data plane.

It knows no manager. A manager is given it, and those managers that it calls itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from models.records.decisions import Action, Decision, Verdict
from models.records.tables import HISTOGRAM_TABLES, TABLES, table
from sim.clock import Clock
from sim.control.cluster import Cluster, ClusterView, RunPlan
from sim.data_plane import CheckpointPlane, DataPlane, Plane, RecoverablePlane
from sim.plane_values import NO_HOST, Rows

_SECOND = 1_000_000_000
_OF_THE_PLANE = ("visits", "waiting", "deliveries", "dropped", "checkpoints", "messages")


class Recorder:
    """Lists of rows, one for each table of the control plane; nothing is computed from them here."""

    def __init__(self) -> None:
        self._restores: dict[int, list[int]] = {}
        self._blocks: dict[str, list[tuple[int, np.ndarray]]] = {}  # in place of rows of a table
        self.rows: dict[str, list[tuple[Any, ...]]] = {name: [] for name in TABLES if name not in _OF_THE_PLANE}

    def sample(self, name: str, now_ns: int, rows: Rows) -> None:
        """Add what was sampled at an instant: rows of a table without their first column."""
        if isinstance(rows, np.ndarray):
            self._blocks.setdefault(name, []).append((now_ns, rows))
        else:
            self.rows[name] += [(now_ns, *row) for row in rows]

    def restore(self, now_ns: int, size_bytes: int) -> None:
        """Count a checkpoint that was fetched from the remote store."""
        total = self._restores.setdefault(now_ns - now_ns % _SECOND, [0, 0])
        total[0] += 1
        total[1] += size_bytes

    def revise(self, name: str, row: int, **values: object) -> None:
        """Fill in columns of a row that were not known when it was written."""
        known = dict(zip((column.name for column in TABLES[name]), self.rows[name][row], strict=True))
        self.rows[name][row] = tuple((known | values).values())

    def value(self, name: str, row: int, column: str) -> Any:
        """Return a value of a row."""
        place = next(k for k, one in enumerate(TABLES[name]) if one.name == column)
        return self.rows[name][row][place]

    def tables(
        self,
        plane: Mapping[str, Mapping[str, np.ndarray]],
        messages: Mapping[tuple[int, str], Sequence[int]],
    ) -> Mapping[str, Mapping[str, np.ndarray]]:
        """Return all tables as `models.records.tables` has them; `plane` and `messages` come from the data plane."""
        totals = dict(messages) | {(second, "restore"): total for second, total in self._restores.items()}
        made = {
            name: table(name, _columns(name, self._blocks[name]) if name in self._blocks else rows)
            for name, rows in self.rows.items()
        }
        made["messages"] = table("messages", [(*key, *totals[key]) for key in sorted(totals)])
        binned = [name for name in HISTOGRAM_TABLES if name in plane]
        return {name: plane[name] if name in plane else made[name] for name in (*TABLES, *binned)}


def _columns(name: str, blocks: list[tuple[int, np.ndarray]]) -> dict[str, object]:
    """Return the columns of a table that was sampled in blocks, one for each instant."""
    at_ns = np.repeat([now for now, _ in blocks], [len(rows) for _, rows in blocks])
    rest = np.concatenate([rows for _, rows in blocks]).T.copy()
    return dict(zip((column.name for column in TABLES[name]), (at_ns, *rest), strict=True))


P_co = TypeVar("P_co", bound=Plane, covariant=True)


class StateOn(Generic[P_co]):
    """The state of one replication. Hosts, operators, tasks and partitions are numbers; tuples are the plane's.

    Its type says what the plane can do: a manager takes a `StateOn` the interface whose verbs it calls, and
    `StateOn[Plane]` if it calls none.
    """

    plane: P_co
    """Set by who makes the plane, which needs the cluster and somebody to tell."""

    def __init__(self, plan: RunPlan, clock: Clock) -> None:
        self.plan, self.clock = plan, clock
        self.recorder, self.cluster = Recorder(), Cluster(plan)
        self.view = ClusterView(self.cluster)
        self._works: dict[int, Callable[[], None]] = {}  # token -> what is to be done after the work
        self._tokens = 0

    def new_token(self) -> int:
        """Return a number for a message or a piece of work."""
        self._tokens += 1
        return self._tokens - 1

    def work(self: StateOn[RecoverablePlane], task: int, ns: int, done: Callable[[], None]) -> None:
        """Occupy the task for a time, ahead of its queue; then call `done`, unless its host dies before."""
        token = self.new_token()
        self._works[token] = done
        self.plane.work(task, ns, token)

    def work_done(self, token: int) -> None:
        """Call what was to be done after the work."""
        self._works.pop(token)()

    def decide(
        self,
        action: Action,
        subject: str,
        reason: str,
        *,
        origin: str = "",
        target: str = "",
        verdict: Verdict = Verdict.DONE,
    ) -> None:
        """Write down a decision of now; see `models.records.decisions.Decision`."""
        row = Decision(action, subject, origin, target, verdict, reason)
        self.recorder.rows["decisions"].append((self.clock.now_ns(), *row))

    def plan_checkpoint_host(self: StateOn[CheckpointPlane], partition: int, host: int | None) -> None:
        """Plan where periodic checkpoints of the partition go from now on; None: wherever the next one finds a host."""
        self.cluster.planned_checkpoint_host[partition] = host
        self.plane.plan_checkpoint_host(partition, NO_HOST if host is None else host)


RunState = StateOn[DataPlane]  # on a plane that can do everything
