"""Coverage of a campaign: messages that came, messages that were lost, crashes of each role in each phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from lab.plans import SUBJECTS
from sim.migration.protocol import Message, Protocol, ProtocolRun
from sim.plane_values import CONTROL

BEGUN = "start"


def kinds_of(protocol: type[Protocol[Any]]) -> list[str]:
    """Return the kinds of messages that the protocol handles, sorted."""
    return sorted(name.removeprefix("on_") for name in dir(protocol) if name.startswith("on_"))


class Coverage:
    """Counters over the schedules of a campaign, by protocol."""

    def __init__(self) -> None:
        self.met: Counter[tuple[str, ...]] = Counter()
        self._sent: dict[int, Message] = {}
        self._works: dict[int, tuple[ProtocolRun[Any], str, int]] = {}
        self._phase: dict[int, str] = {}  # of each run: what it was told last

    # -- watching one laboratory

    def watch(self, lab: Any, acted: Callable[[], None]) -> None:
        """Look at what the runtime of a laboratory does; `acted` is called before each step of a protocol."""
        runtime, services = lab.coordinator.runtime, lab.migrations.services
        self._sent, self._works, self._phase = {}, {}, {}
        send, after_backlog, load, deliver, start = (
            runtime.send,
            runtime.after_backlog,
            services.load,
            runtime.deliver,
            runtime.start,
        )

        def starts(run: ProtocolRun[Any]) -> None:
            acted()
            start(run)
            self.met[run.name, "crash-free" if all(lab.cluster.host_alive) else "with a crash", "runs"] += 1

        def sends(message: Message, turn: bool, channels: int = 0) -> None:
            self._sent[lab.state._tokens] = message  # its token will be the next
            run = runtime.runs[message.run]
            who = "control" if message.sender == CONTROL else "itself" if message.sender == message.to else "a task"
            self.met[run.name, "sent by " + who, message.kind] += 1
            send(message, turn, channels)

        def works(run: ProtocolRun[Any], kind: str, task: int, do: Callable[[], None]) -> None:
            before = lab.state._tokens
            self.met[run.name, "work", kind] += 1
            do()
            for token in range(before, lab.state._tokens):
                self._works[token] = run, kind, task

        def delivers(message: Message) -> None:
            run = runtime.runs[message.run]
            if not run.over:
                acted()
                self._phase[run.number] = message.kind
                self.met[run.name, "delivered", message.kind] += 1
            deliver(message)

        runtime.start, runtime.send, runtime.deliver = starts, sends, delivers
        runtime.after_backlog = lambda message: works(
            runtime.runs[message.run], message.kind, message.to, lambda: after_backlog(message)
        )
        services.load = lambda run, then: works(run, "loaded", run.move.target, lambda: load(run, then))
        heard = runtime.heard

        def hears(token: int) -> None:
            self._sent.pop(token, None)
            heard(token)

        runtime.heard = hears

    def dies(self, lab: Any, host: int) -> None:
        """The host is about to die: what is lost with it, and who it was."""
        cluster, runs = lab.cluster, lab.coordinator.runtime.runs
        for run in lab.coordinator.open.values():
            for role, hosts in SUBJECTS[run.name].hosts(lab, run).items():
                if host in hosts:
                    self.met[run.name, "crash of " + role, self._phase.get(run.number, BEGUN)] += 1
        for token, message in list(self._sent.items()):
            run = runs[message.run]
            if run.over:
                continue
            if cluster.task_host[message.to] == host and cluster.task_alive[message.to]:
                self.met[run.name, "lost with its receiver", message.kind] += 1
                del self._sent[token]
            elif message.sender != CONTROL and cluster.task_host[message.sender] == host:
                letter = lab.plane.letters.get(token)
                if letter is None or letter.departure_ns < 0:
                    self.met[run.name, "lost with its sender", message.kind] += 1
        for token, (run, kind, task) in list(self._works.items()):
            if token in lab.state._works and not run.over and cluster.task_host[task] == host:
                self.met[run.name, "lost with its task", kind] += 1
                del self._works[token]

    # -- what must have been met

    def missing(self, protocol: type[Protocol[Any]], name: str) -> list[str]:
        """Counters that stayed at 0, of those that the handlers of the class ask for."""
        subject = SUBJECTS[name]
        kinds = [kind for kind in kinds_of(protocol) if kind not in subject.unheard]
        phases = [BEGUN, *(kind for kind in kinds if kind not in subject.final)]
        wanted = [("delivered", kind) for kind in kinds]
        wanted += [(f"crash of {role}", phase) for role in subject.roles for phase in phases]
        wanted += [(how, kind) for kind in kinds for how in self._ways(name, kind)]
        return [f"{what}: {kind}" for what, kind in wanted if not self.met[name, what, kind]]

    def _ways(self, name: str, kind: str) -> list[str]:
        """How a message of the kind can be lost, from how it was seen to travel."""
        ways = []
        if any(self.met[name, "sent by " + who, kind] for who in ("control", "itself", "a task")):
            ways.append("lost with its receiver")
        if self.met[name, "sent by a task", kind]:
            ways.append("lost with its sender")
        if self.met[name, "work", kind]:
            ways.append("lost with its task")
        return ways
