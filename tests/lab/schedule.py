"""One schedule: a job, what is to happen to it, and an order of all steps; run, healed, judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field

from lab.coverage import Coverage
from lab.invariants import AT_REST, PREFIXES, Seen
from lab.job import Job
from lab.laboratory import Laboratory
from lab.plans import SUBJECTS
from lab.scheduler import Chooser, Listed, Noted, Seeded

ROLES = ("old owner", "new owner", "upstream", "downstream", "checkpoint host", "any")
REPAIRS = {"never": None, "before it is detected": 1, "later": 10**15}
MOST_STEPS = 6000  # a schedule that takes more does not come to rest
ROUNDS = 6  # of checkpoints, until moves that wait for one have ended

Tamper = Callable[[Laboratory], None]  # what makes a run one of a mutant


@dataclass(frozen=True)
class Ask:
    """Somebody asks for a move when so many checkpoints of the group are stored, or later."""

    group: int  # counted over all operators
    host: int
    to_checkpoint_host: bool
    after: int = 1


@dataclass(frozen=True)
class Crash:
    """A host dies after so many steps of protocols, or later: one that has the role in the newest move."""

    role: str
    pick: int  # which, where several have it
    after: int
    repair: str


@dataclass(frozen=True)
class Schedule:
    """Everything that determines a run; without `choices` steps are drawn by the seed."""

    protocol: str
    seed: int
    job: Job
    moves: tuple[Ask, ...]
    crashes: tuple[Crash, ...]
    saves: tuple[int, ...]  # after how many steps of protocols each group takes one more checkpoint, or later
    choices: tuple[int, ...] | None = None
    early: int = 0  # how often waves ask again while an answer may still come

    def text(self) -> str:
        """Return one line that `python -m lab` replays."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def read(cls, text: str) -> Schedule:
        """Return the schedule of such a line."""
        raw = json.loads(text)
        job = raw["job"]
        raw["job"] = Job(**{name: tuple(its) if isinstance(its, list) else its for name, its in job.items()})
        raw["moves"] = tuple(Ask(**one) for one in raw["moves"])
        raw["crashes"] = tuple(Crash(**one) for one in raw["crashes"])
        raw["saves"] = tuple(raw["saves"])
        raw["choices"] = None if raw["choices"] is None else tuple(raw["choices"])
        return cls(**raw)


def listed(digits: str) -> tuple[int, ...]:
    """Return the choices of a schedule, each written as a hexadecimal digit."""
    return tuple(int(digit, 16) for digit in digits)


@dataclass
class Result:
    """The outcome of a schedule."""

    faults: list[str]
    steps: int
    destroyed: int  # tuples of which two crashes have taken the last copy
    choices: list[int] = field(default_factory=list)  # where they were noted


def run(
    schedule: Schedule,
    tamper: Tamper | None = None,
    coverage: Coverage | None = None,
    note: bool = False,
    chooser: Chooser | None = None,
) -> Result:
    """Run the schedule and judge it; `tamper` breaks something first; with `note` its choices are in the result."""
    if chooser is None:
        chooser = Seeded(schedule.seed) if schedule.choices is None else Listed(schedule.choices)
    noted = Noted(chooser)
    lab = Laboratory(schedule.job, noted if note else chooser, bool(schedule.crashes), early=schedule.early)
    result = Runner(schedule, lab, tamper, coverage or Coverage()).run()
    result.choices = noted.choices
    return result


class Runner:
    """Puts the faults of a schedule among the steps of a laboratory, and checks at every control point."""

    def __init__(self, schedule: Schedule, lab: Laboratory, tamper: Tamper | None, coverage: Coverage) -> None:
        self.schedule, self.lab, self.coverage = schedule, lab, coverage
        self.seen = Seen(lab, crashes=len(schedule.crashes))
        self.faults: dict[str, None] = {}
        self.acts = 0  # steps of protocols so far
        self._checked = True
        self._waiting: list[tuple[int, Callable[[], None]]] = []  # faults that wait for steps of protocols
        if tamper:
            tamper(lab)
        coverage.watch(lab, self._acted)

    def run(self) -> Result:
        """First anything may happen; then nothing is broken any more, and all has to come to rest."""
        lab = self.lab
        lab.clock.settle()
        self._enable_all()
        try:
            self._safety()
            self._heal()
        except Exception as error:
            self._blame([f"raises {type(error).__name__}: {error}"])
        else:
            self._blame(self.seen.steps.told)
            self.seen.losses.check()
            for invariant in AT_REST:
                self._blame(invariant.check(self.seen))
        return Result([*self.faults], lab.clock.now_ns(), sum(map(len, self.seen.losses.destroyed.values())))

    def _blame(self, found: Sequence[str]) -> None:
        if found:
            self.faults.update(dict.fromkeys(found))

    # -- what is to happen

    def _enable_all(self) -> None:
        clock, schedule = self.lab.clock, self.schedule
        for number, ask in enumerate(schedule.moves):
            clock.add(("move", number, 0), lambda _, ask=ask, number=number: self._move(number, ask))
        for acts in schedule.saves:
            self._when(acts, self._enable_saves)
        for number, crash in enumerate(schedule.crashes):
            self._when(crash.after, lambda crash=crash, number=number: self._enable_crash(number, crash))

    def _when(self, acts: int, do: Callable[[], None]) -> None:
        if self.acts >= acts:
            do()
        else:
            self._waiting.append((acts, do))

    def _acted(self) -> None:
        """A protocol is about to do something."""
        self.acts += 1
        self._checked = False
        due = [do for acts, do in self._waiting if acts <= self.acts]
        self._waiting = [one for one in self._waiting if one[0] > self.acts]
        for do in due:
            do()

    def _enable_saves(self) -> None:
        for partition in self.lab.saved_partitions:
            self.lab.clock.add(("save", partition, 0), lambda _, partition=partition: self._save(partition))

    def _save(self, partition: int) -> None:
        self._checked = False
        self.lab.save(partition)

    def _move(self, number: int, ask: Ask, patience: int = 12) -> None:
        """Ask for a run of the protocol; where it is too early, later."""
        lab, protocol = self.lab, self.schedule.protocol
        checked, self._checked = self._checked, False
        if not SUBJECTS[protocol].ask(lab, protocol, ask, patience > 0):
            self._checked = checked
            lab.clock.add(("move", number, 0), lambda _: self._move(number, ask, patience - 1))

    def _enable_crash(self, number: int, crash: Crash) -> None:
        self.lab.clock.add(("crash", number, 0), lambda _: self._crash(crash))

    def _crash(self, crash: Crash) -> None:
        lab = self.lab
        alive = [host for host, up in enumerate(lab.cluster.host_alive) if up]
        runs = lab.coordinator.runtime.runs
        run = next(reversed(lab.coordinator.open.values()), runs[-1] if runs else None)
        subject = SUBJECTS[self.schedule.protocol]
        hosts = sorted(subject.hosts(lab, run).get(subject.role(crash.role), set()) & set(alive)) if run else []
        hosts = hosts or alive
        if len(alive) < 3:
            return  # somebody has to go on
        host = hosts[crash.pick % len(hosts)]
        self._checked = False
        self.seen.losses.dies(host)
        self.coverage.dies(lab, host)
        lab.failures.fail(host, REPAIRS[crash.repair])

    # -- phases

    def _steps(self, on: Callable[[], bool] = lambda: True) -> None:
        clock = self.lab.clock
        while on() and clock.take():
            if not self._checked:
                self._check()
            if clock.now_ns() > MOST_STEPS * SUBJECTS[self.schedule.protocol].length:
                raise RuntimeError("does not come to rest")

    def _check(self) -> None:
        """A control point: what must hold at any time."""
        self._checked = True
        self.seen.losses.check()
        for invariant in PREFIXES:
            self._blame(invariant.check(self.seen))

    def _safety(self) -> None:
        self._steps()
        while self._waiting:  # faults that were to come after more steps of protocols than there were
            _, do = self._waiting.pop(0)
            do()
            self._steps()

    def _heal(self) -> None:
        lab = self.lab
        for _ in range(ROUNDS):
            if not lab.moving:
                break
            self._enable_saves()
            self._steps()
