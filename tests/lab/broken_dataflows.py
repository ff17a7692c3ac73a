"""Broken handling of dataflows that are no chains: it cannot show where operators have one neighbour each way."""

from __future__ import annotations

from lab.breaking import around
from lab.laboratory import Laboratory
from sim.plain.partition import Partition


@around("cpa", "a move asks one of the operators upstream for all", shaped=True)
def asks_one_operator(lab: Laboratory) -> None:
    upstream = lab.instances.upstream
    lab.instances.upstream = lambda group: {min(upstream(group))}  # type: ignore[method-assign]


@around("cpal", "one operator upstream speaks for all", shaped=True)
def hears_one_operator(lab: Laboratory) -> None:
    upstream = lab.instances.upstream
    lab.instances.upstream = lambda group: {max(upstream(group))}  # type: ignore[method-assign]


@around("cpa", "who is restored sends again to one of the operators downstream", shaped=True)
def sends_again_to_one_operator(lab: Laboratory) -> None:
    receivers, operator_of = lab.plane.receivers, lab.cluster.partition_operator

    def of_the_first(partition: int) -> list[int]:
        found = receivers(partition)
        first = min((operator_of[receiver] for receiver in found), default=None)
        return [receiver for receiver in found if operator_of[receiver] == first]

    lab.plane.receivers = of_the_first  # type: ignore[method-assign]


@around("cpa", "what one operator downstream has stored is forgotten for all", shaped=True)
def forgets_for_all(lab: Laboratory) -> None:
    saver = lab.plane.saver
    trim_now = saver.trim_now

    def trims(partition: Partition, count: int) -> None:
        trim_now(partition, count)
        for sender in partition.senders:
            for rows in sender.kept.values():
                while rows and partition.position.get(rows[0].id, count) < count:
                    rows.popleft()

    saver.trim_now = trims  # type: ignore[method-assign]


@around("cpa", "the checkpoint of an operator without keys is not read", shaped=True)
def reads_no_checkpoint_without_keys(lab: Laboratory) -> None:
    install = lab.plane.install

    def installs(partition: int) -> int:
        restored = lab.plane.instances()[partition]
        if not restored.operator.description.keyed:
            restored.checkpoint = None
        return install(partition)

    lab.plane.install = installs  # type: ignore[method-assign]


@around("cpa", "a join that is restored has forgotten what waits for its partner", shaped=True)
def restored_without_sides(lab: Laboratory) -> None:
    install = lab.plane.install

    def installs(partition: int) -> int:
        missing = install(partition)
        lab.plane.instances()[partition].time.sides = {}
        return missing

    lab.plane.install = installs  # type: ignore[method-assign]


@around("direct", "a join that moves leaves behind what waits for its partner", shaped=True)
def moved_without_sides(lab: Laboratory) -> None:
    adopt = lab.plane.adopt

    def adopts(instance: int, partition: int) -> None:
        adopt(instance, partition)
        lab.plane.instances()[instance].time.sides = {}

    lab.plane.adopt = adopts  # type: ignore[method-assign]
