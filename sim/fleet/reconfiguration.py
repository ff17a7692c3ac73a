"""Reconfigurations that a manager asks for: refused, or begun and then done, refused after all, or aborted.

The SLO check refuses changes that would take a query below its availability objective. Objectives are about placements:
P(broken) is exact for every placement that can come about. A change is checked when it is requested, alone and together
with all changes under way, and once more before it is committed, since those may have ended otherwise meanwhile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from models import display
from models.fleet.system import keeps
from models.units import to_ns
from sim.clock import Clock, Process
from sim.fleet.placement import Add, Change, FleetPlacement, Move, Pending, Remove, Split
from sim.fleet.service import Service


@dataclass(frozen=True)
class Refusal:
    """The query that would miss its objective, with P(broken) as it is, after the change, and as allowed.

    `query`: its index. `allowed` is 1 minus the objective.
    """

    query: int
    before: float
    after: float
    allowed: float


class SloCheck:
    """Checks changes by the exact availability of the queries that they touch."""

    def __init__(self, placement: FleetPlacement) -> None:
        self.placement, self.system = placement, placement.system

    def refusal(self, changes: Sequence[Change]) -> Refusal | None:
        """Return the first query with an objective that would miss it.

        The changes are applied one after the other in thought. None means that all objectives are met.
        """
        unavailability = self.system.unavailability
        if unavailability is None:
            return None  # then there is no objective: a system with objectives has exact methods
        for query in self._touched(changes):
            slo = self.system.slos[query]
            if slo is None:
                continue
            after = unavailability.broken(self.placement.changed(query, changes))
            if not keeps(slo, after):
                return Refusal(query, unavailability.broken(self.placement.instances(query)), after, 1 - slo)
        return None

    def check(self, changes: Sequence[Change]) -> Refusal | None:
        """Return the refusal of requested changes: all, each alone, what is done now, and with what is under way."""
        # Changes take time and end in any order, or not at all. So states on the way have to keep the objectives, too:
        # each change alone, and those that take effect at once (removals) without the others.
        under_way = [one.change for one in self.placement.pending]
        sets: list[Sequence[Change]] = [changes]
        if len(changes) > 1:
            at_once = [one for one in changes if isinstance(one, Remove)]
            sets += [at_once, *([one] for one in changes)]
        if under_way:
            sets.append([*under_way, *changes])
        return next((found for one in sets if (found := self.refusal(one)) is not None), None)

    def _touched(self, changes: Sequence[Change]) -> list[int]:
        """Return the present queries that need an operator of the changed parts, rising."""
        placement = self.placement
        return sorted({query for change in changes for query in placement.users[placement.parts[change.part].op]})


BEGUN, DONE, REFUSED, ABORTED = "begun", "done", "refused", "aborted"
_WORD = {Move: "move", Split: "split", Add: "add", Remove: "remove"}


class Reconfiguration:
    """Changes of the placement, each checked against the objectives unless `enforce_slos` is false.

    The life of a change: requested (`ask`), begun, and after `move_s` seconds done, or refused by a second check, or
    aborted because a host failed or nobody needs the part any more. Removals are done at once. Each step is a row of
    the table `decisions`; of equal refusals one row is written until something else changes.
    """

    def __init__(self, clock: Clock, service: Service, move_s: float, *, enforce_slos: bool = True) -> None:
        self.clock, self.service, self.placement = clock, service, service.placement
        self.slo_check, self.enforce_slos = SloCheck(service.placement), enforce_slos
        self._move_ns = max(1, to_ns(move_s))
        self.touched = True  # something changed since the last check of the manager
        self._judged: dict[tuple[Change, ...], Refusal | None] = {}  # verdicts on the present placement
        service.host_changed.append(self._host_changed)
        self._told: set[tuple[Change, ...]] = set()  # changes whose refusal has a row

    # -- requests of a manager

    def ask(self, changes: Sequence[Change], reason: str) -> bool:
        """Begin all of the changes, or none: then a row says why. Return True if they are under way or done.

        Rules and objectives are checked for all of them before the first begins, so that nothing has to be undone.
        """
        for change in changes:
            rule = self._rule(change)
            if rule is not None:
                self._decide(change, REFUSED, rule)
                return False
        found = self._verdict(changes)
        if found is not None:
            # One row for a refusal: a manager asks for the same change in every check.
            if tuple(changes) not in self._told:
                self._refused(changes[-1], found, "")
            self._told.add(tuple(changes))
            return False
        for change in changes:
            self._begin(change, reason)
        return True

    def would_do(self, *changes: Change) -> bool:
        """Return True if no objective forbids the changes."""
        return self._verdict(changes) is None

    def _verdict(self, changes: Sequence[Change]) -> Refusal | None:
        """Return the refusal of the changes, or None; cached until placement, pending changes or queries change."""
        key = tuple(changes)
        if key not in self._judged:
            self._judged[key] = self.slo_check.check(changes) if self.enforce_slos else None
        return self._judged[key]

    def placed_otherwise(self) -> None:
        """Forget verdicts: placement, pending changes or queries have changed."""
        self.touched = True
        self._judged.clear()
        self._told.clear()

    def acquire(self, host: int, reason: str) -> None:
        """Take a spare host into use."""
        self.placement.in_use[host] = True
        self.touched = True
        self.note("acquire", self.placement.system.hosts[host], DONE, reason)

    def drain(self, host: int, changes: Sequence[Change], reason: str) -> bool:
        """Empty a host and give it back; nothing is placed there any more. Return False if that is refused."""
        name = self.placement.system.hosts[host]
        if not self.ask(changes, f"to give back {name}"):
            return False
        self.placement.draining.add(host)
        self.note("release", name, BEGUN, reason)
        self._look_at_drained()
        return True

    def note(self, action: str, subject: str, verdict: str, reason: str, origin: str = "", target: str = "") -> None:
        """Write a row of the table of decisions."""
        row = (self.clock.now_ns(), action, subject, origin, target, verdict, reason)
        self.service.rows["decisions"].append(row)

    def call_off(self, pending: Sequence[Pending], reason: str) -> None:
        """Abort changes that are under way; the placement stays as it was."""
        for one in pending:
            one.alive = False
            self._decide(one.change, ABORTED, reason)
        self.placement.pending = [one for one in self.placement.pending if one.alive]
        self.placed_otherwise()
        self._look_at_drained()

    # -- the life of a change

    def _rule(self, change: Change) -> str | None:
        """Return the rule that a change breaks whatever the objectives are, or None."""
        placement = self.placement
        part = placement.parts[change.part]
        if change.part in placement.busy():
            return "another change of it is under way"
        if isinstance(change, Remove):
            return None if change.host in part.hosts[1:] else "is not the host of a replica"
        if isinstance(change, Move) and change.origin not in part.hosts:
            return "there is no instance to move"
        if isinstance(change, Split) and not placement.can_split(part):
            return "it is not to be split, or not into more parts"
        if change.target in part.hosts:
            return "a replica on the host of its primary goes down with it"
        if not placement.in_use[change.target] or change.target in placement.draining:
            return "the host is not in use"
        return None if self.service.up[change.target] else "the host is down"

    def _begin(self, change: Change, reason: str) -> None:
        """Start one change: carry out a removal at once, let others take the time of a move."""
        self.placed_otherwise()
        if isinstance(change, Remove):
            self._commit(change, reason, "what was done before it: ")
            return
        self._decide(change, BEGUN, reason)
        pending = Pending(change, self.clock.now_ns())
        self.placement.pending.append(pending)
        self.clock.process(self._live_later(pending))

    def _live_later(self, pending: Pending) -> Process:
        """Commit the change when the instance is live at its new place; until then it counts where it was."""
        yield self.clock.sleep(self.clock.now_ns() + self._move_ns)
        if not pending.alive:
            return
        # Not pending any more when it is checked, or the change would be counted twice.
        self.placement.pending.remove(pending)
        self._commit(pending.change, "it is live", "something else came about since it began: ")
        self.placed_otherwise()
        self._look_at_drained()

    def _commit(self, change: Change, reason: str, why_not: str) -> None:
        """Carry out a change if no objective forbids it now. Every change of the placement passes through here."""
        placement, found = self.placement, self.slo_check.refusal([change]) if self.enforce_slos else None
        if found is not None:
            self._refused(change, found, why_not)
            return
        self._decide(change, DONE, reason)
        for part in placement.apply(change, self.clock.now_ns()):
            self.service.changed(part)
            for query in placement.users[part.op]:
                self.service.query_changed(query)

    def _host_changed(self, host: int) -> None:
        """Abort the changes that need a host which failed at this instant."""
        self.touched = True
        if self.service.up[host]:
            return
        hit = [one for one in self.placement.pending if host in self._ends(one.change)]
        if hit:
            self.call_off(hit, f"{self.placement.system.hosts[host]} failed meanwhile")

    def _ends(self, change: Change) -> tuple[int, ...]:
        """Return the hosts that a change needs until it is over."""
        if isinstance(change, Move):
            return change.origin, change.target
        source = self.placement.parts[change.part].hosts[0]
        return (source, change.target) if isinstance(change, Add | Split) else ()

    def _look_at_drained(self) -> None:
        """Give back drained hosts that are empty, and stop draining those that something keeps."""
        placement = self.placement
        for host in sorted(placement.draining):
            # Wait for changes under way: they may still empty the host, or fail and leave an instance there.
            if any(host in self._ends(one.change) for one in placement.pending):
                continue
            placement.draining.discard(host)
            name = placement.system.hosts[host]
            if any(host in part.hosts for part in placement.parts.values()):
                self.note("release", name, ABORTED, "not all instances could leave")
            else:
                placement.in_use[host] = False
                self.note("release", name, DONE, "it is empty")

    # -- rows

    def _refused(self, change: Change, found: Refusal, why: str) -> None:
        """Write the two rows of a refusal: the decision, and its figures."""
        system = self.placement.system
        query = system.queries[found.query]
        self._decide(
            change,
            REFUSED,
            f"{why}{query} would be broken with {display.number(found.after)}, above {display.number(found.allowed)}",
        )
        row = (self.clock.now_ns(), _WORD[type(change)], self.placement.parts[change.part].name, query)
        self.service.rows["refusals"].append((*row, found.before, found.after, found.allowed))

    def _decide(self, change: Change, verdict: str, reason: str) -> None:
        """Write the row of a decision about a change; a split leaves the host of the primary."""
        names, part = self.placement.system.hosts, self.placement.parts[change.part]
        if isinstance(change, Remove):
            origin, target = names[change.host], ""
        else:
            target = names[change.target]
            origin = names[change.origin] if isinstance(change, Move) else ""
            origin = names[part.hosts[0]] if isinstance(change, Split) else origin
        self.note(_WORD[type(change)], part.name, verdict, reason, origin, target)


@dataclass
class Deployment:
    """Needs of a query that are not there: hosts of instances of new operators; (part, host) of replicas.

    `hosts`: operator -> hosts, the primary first. `added`: replicas of parts that other queries use already.
    """

    hosts: dict[int, list[int]] = field(default_factory=dict)
    added: list[tuple[int, int]] = field(default_factory=list)


class Admission:
    """Admits queries that come, places what they need or refuses them because of objectives, and lets them go.

    Only an arriving query's own objective can fail: instances that are there stay, and further replicas help the
    others.
    """

    def __init__(self, reconfiguration: Reconfiguration) -> None:
        self.changes, self.placement, self.service = reconfiguration, reconfiguration.placement, reconfiguration.service
        self.system, self.clock = reconfiguration.placement.system, reconfiguration.clock

    def arrive(self, query: int, plan: Deployment, most: str = "") -> bool:
        """Start the query with all that the plan deploys, in no time; return True if it was admitted.

        `plan`: hosts for each operator of `missing`; `most`: end of the reason of a refusal. A refused query changes
        nothing.
        """
        slo, name = self.system.slos[query], self.system.queries[query]
        if slo is not None and self.changes.enforce_slos:
            assert self.system.unavailability is not None
            broken = self.system.unavailability.broken(self.would_be(query, plan))
            if not keeps(slo, broken):
                reason = f"would be broken with {display.number(broken)}, above {display.number(1 - slo)}{most}"
                self.changes.note("admit", name, REFUSED, reason)
                row = (self.clock.now_ns(), "admit", name, name, 1.0, broken, 1 - slo)
                self.service.rows["refusals"].append(row)
                return False
        now = self.clock.now_ns()
        # Operators that another query uses already run: only the first user starts them.
        for op in self.system.needs[query]:
            users = self.placement.users.setdefault(op, set())
            if not users:
                self.service.changed(self.placement.place(op, plan.hosts[op], now))
            users.add(query)
        for number, host in plan.added:
            for part in self.placement.apply(Add(number, host), now):
                self.service.changed(part)
        self.placement.present[query] = now
        self.changes.placed_otherwise()
        self.service.query_changed(query)
        return True

    def would_be(self, query: int, plan: Deployment) -> list[tuple[int, ...]]:
        """Return the instances that the query would have."""
        found: list[tuple[int, ...]] = []
        for op in self.system.needs[query]:
            if op in plan.hosts:
                found.append(tuple(plan.hosts[op]))
            elif op in self.placement.of_op:
                for number in self.placement.of_op[op]:
                    more = (host for one, host in plan.added if one == number)
                    found.append((*self.placement.parts[number].hosts, *more))
        return found

    def missing(self, query: int) -> list[int]:
        """Return the operators that the query needs and nobody else does."""
        return [op for op in self.system.needs[query] if not self.placement.users.get(op)]

    def leave(self, query: int) -> None:
        """End the query, and the operators that only it needed."""
        now, name = self.clock.now_ns(), self.system.queries[query]
        self.service.query_left(query)
        since = self.placement.present.pop(query)
        if since < now:
            self.service.rows["presence"].append((name, since, now))
        for op in self.system.needs[query]:
            self.placement.users[op].discard(query)
            if not self.placement.users[op]:
                gone = [one for one in self.placement.pending if self.placement.parts[one.change.part].op == op]
                self.changes.call_off(gone, "nobody needs it any more")
                self.placement.drop(op, now)
        self.changes.placed_otherwise()
        self.service.loads_changed()
