"""Decisions of the control plane as rows, and the sentence that is made from a row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple

import numpy as np


class Action(StrEnum):
    """Kinds of decisions; the comment says on which subject, and what origin and target are."""

    RESTORE = "restore"  # a partition, on a host
    RESTART = "restart"  # the job, what was on a host, or a batch
    LOSE_STATE = "lose state"  # of a partition, for good
    FAIL = "fail"  # a host, the driver, or the job
    FENCE = "fence"  # a host
    STOP = "stop"  # a host, on purpose
    MOVE = "move"  # a key group, to a host: asked for by the balancing of load, or refused, whoever asked
    USE_DIRECT = "use direct"  # for a key group whose protocol needs a checkpoint at the target
    REBALANCE = "rebalance"  # the dataflow, by a protocol: begun, or called off
    POSTPONE = "postpone"  # a move, or a rebalance: it waits
    RESCALE = "rescale"  # an operator, from a number of tasks to another
    RECONFIGURE = "reconfigure"  # an operator: key groups change their tasks in steps
    STORE = "store"  # checkpoints of a partition, on a host in place of the planned one
    REALLOCATE = "reallocate"  # checkpoints of a key group, from a host to another
    COMPARE = "compare"  # the allocation of checkpoints with a fresh one
    ADD_REPLICA = "add replica"  # of a key group, on a host
    LOSE_REPLICA = "lose replica"  # of a key group, on a host
    TAKE_OVER = "take over"  # a key group, by its replica on a host
    FINISH_EARLY = "finish early"  # a key group goes on with a replica on a host that was being made
    ACQUIRE = "acquire"  # a host
    DRAIN = "drain"  # a host
    RELEASE = "release"  # a host
    BALANCE = "balance"  # a host


class Verdict(StrEnum):
    """Outcome of a decision; one that is refused changes nothing."""

    DONE = "done"
    REFUSED = "refused"


class Decision(NamedTuple):
    """One decision: the columns of the table `decisions` except the instant.

    `subject` is a key group or task (OPERATOR[index]), an operator, a host, a protocol, or what waits; `origin` and
    `target` are hosts, or numbers of tasks where an operator is rescaled; each is empty where there is none.
    """

    action: str
    subject: str
    origin: str = ""
    target: str = ""
    verdict: str = Verdict.DONE
    reason: str = ""


_SENTENCES = {
    (Action.RESTORE, Verdict.DONE): "{subject} resumes on {target}",
    (Action.RESTORE, Verdict.REFUSED): "{subject} stays down",
    (Action.RESTART, Verdict.DONE): "{subject} is started again",
    (Action.RESTART, Verdict.REFUSED): "{subject} is not restarted",
    (Action.LOSE_STATE, Verdict.DONE): "state of {subject} is lost",
    (Action.FAIL, Verdict.DONE): "{subject} fails",
    (Action.FAIL, Verdict.REFUSED): "failure of {subject} ignored",
    (Action.FENCE, Verdict.DONE): "{subject} is fenced",
    (Action.STOP, Verdict.REFUSED): "{subject} is not stopped",
    (Action.MOVE, Verdict.DONE): "{subject} is to move to {target}",
    (Action.MOVE, Verdict.REFUSED): "{subject} does not move to {target}",
    (Action.USE_DIRECT, Verdict.DONE): "{subject} starts by direct",
    (Action.REBALANCE, Verdict.DONE): "the dataflow is rebalanced by {subject}",
    (Action.POSTPONE, Verdict.DONE): "{subject} waits",
    (Action.REBALANCE, Verdict.REFUSED): "the rebalance by {subject} is called off",
    (Action.RESCALE, Verdict.DONE): "{subject} goes from {origin} to {target} tasks",
    (Action.RESCALE, Verdict.REFUSED): "{subject} is not rescaled",
    (Action.RECONFIGURE, Verdict.DONE): "{subject} is reconfigured",
    (Action.RECONFIGURE, Verdict.REFUSED): "{subject} is not reconfigured",
    (Action.STORE, Verdict.DONE): "checkpoints of {subject} go to {target}",
    (Action.REALLOCATE, Verdict.DONE): "{subject} stores its checkpoints on {target}",
    (Action.COMPARE, Verdict.REFUSED): "the allocation of checkpoints is not compared",
    (Action.ADD_REPLICA, Verdict.DONE): "{subject} has a new replica on {target}",
    (Action.ADD_REPLICA, Verdict.REFUSED): "{subject} gets no replica on {target}",
    (Action.LOSE_REPLICA, Verdict.DONE): "{subject} loses its replica on {target}",
    (Action.TAKE_OVER, Verdict.DONE): "{subject} is taken over by its replica on {target}",
    (Action.FINISH_EARLY, Verdict.DONE): "{subject} is taken over by its unfinished replica on {target}",
    (Action.ACQUIRE, Verdict.DONE): "{subject} is acquired",
    (Action.ACQUIRE, Verdict.REFUSED): "{subject} does not join",
    (Action.DRAIN, Verdict.DONE): "{subject} is to be left",
    (Action.DRAIN, Verdict.REFUSED): "{subject} is not left",
    (Action.RELEASE, Verdict.DONE): "{subject} is released",
    (Action.BALANCE, Verdict.REFUSED): "{subject} stays overloaded",
}


def sentence(decision: Decision) -> str:
    """Return the decision in words, without its reason.

    Raises ValueError for a verdict that the action never has.

    >>> sentence(Decision(Action.RESTORE, "count[3]", target="b"))
    'count[3] resumes on b'
    """
    found = _SENTENCES.get((Action(decision.action), Verdict(decision.verdict)))
    if found is None:
        raise ValueError(f"no sentence for {decision.action!r} that is {decision.verdict!r}")
    return found.format(subject=decision.subject, origin=decision.origin, target=decision.target)


def decisions(table: Mapping[str, np.ndarray]) -> Iterator[tuple[int, Decision]]:
    """Yield (instant [ns], decision) of each row of the table `decisions`.

    `table`: columns of equal length, as `models.records.tables.table` makes them; in order of time.
    """
    columns = (table[name].tolist() for name in ("at_ns", *Decision._fields))
    for at_ns, *row in zip(*columns, strict=True):
        yield at_ns, Decision(*row)
