"""Key groups at two tasks at a time: further instances of a partition, and their routes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from models.records.tables import NEVER
from sim.plain.channels import Channels
from sim.plain.partition import Partition


class GroupInstances(Channels):
    """The verbs of `sim.data_plane` for instances."""

    def add_instance(self, instance: int, partition: int, task: int) -> None:
        """Add an instance of the partition's group: not live, without a state."""
        group = self._numbered[partition].group
        made = Partition(group.operator, group.index, instance, self.tasks[task])
        made.live, made.group = False, group
        # It awaits watermarks of the same senders, and knows of none yet.
        made.time.of_sender = dict.fromkeys(group.time.of_sender, 0)
        self._numbered.append(made)

    def route(self, sender: int, partition: int, targets: Sequence[int]) -> None:
        """Send outputs of this task for the group to these instances, or to its owner."""
        group = self._numbered[partition].group
        group.routes.pop(sender, None)
        if targets:
            group.routes[sender] = tuple(self._numbered[target] for target in targets)
            group.routed_at[sender] = self._sendings

    def own(self, instance: int) -> None:
        """Make the instance the owner of its group."""
        owner = self._numbered[instance]
        owner.group.owner = owner
        owner.owned_at = self._sendings

    def copy_kept(self, sender: int, receiver: int, other: int) -> None:
        """Keep the outputs for one receiver for another one as well."""
        keeper = self._numbered[sender]
        for row in list(keeper.kept.get(self._numbered[receiver], ())):
            keeper.keep(self._numbered[other], row)

    def adopt(self, instance: int, partition: int) -> None:
        """Make the stored checkpoint of the partition that of a new instance, too, and its state."""
        new, old = self._numbered[instance], self._numbered[partition]
        source = old.checkpoint or new.checkpoint
        if source:
            new.checkpoint = new.checkpoint or old.checkpoint  # unless the old one has handed down its state already
            new.key_since, new.applied_created_ns = dict(old.key_since), list(old.applied_created_ns)
            new.trimmed = max(new.trimmed, old.trimmed)
            new.adopted = (old, source.count)
            new.restore_event_time(source, self.plan.replays)
            new.install(source)

    def hand_down(self, instance: int, successor: int) -> bool:
        """Make the state of an instance the stored checkpoint of another one, held by its host."""
        old, new = self._numbered[instance], self._numbered[successor]
        # A newer checkpoint of the successor itself must not be replaced by an older state.
        if not old.live or new.saved:
            return False
        host = old.task.host
        taken = old.snapshot(host.index, host.life)
        new.checkpoint = replace(taken, key_since=dict(old.key_since), applied_created_ns=list(old.applied_created_ns))
        return True

    def freeze(self, partition: int, frozen: bool) -> None:
        """Take and store no checkpoint of the partition, as if one were always under way, or end that."""
        one = self._numbered[partition]
        # A new incarnation voids a checkpoint that is under way; `saving` keeps others from being taken.
        one.incarnation += frozen and one.saving
        one.saving = frozen

    def plan_checkpoint_host(self, partition: int, host: int) -> None:
        """Do nothing: the cluster is asked each time."""
        assert self._numbered[partition].number == partition

    def announce(self, partition: int) -> None:
        """Tell the listener when the next checkpoint of the partition is stored."""
        self._numbered[partition].announced = True

    def measure(self, partition: int, from_ns: int) -> None:
        """Time the tuples that arrive at the partition from an instant on."""
        one = self._numbered[partition]
        one.measured_from, one.until_calm, one.longest = from_ns, False, NEVER

    def measure_until_calm(self, partition: int) -> None:
        """Stop timing with the first tuple that is served as it arrives."""
        self._numbered[partition].until_calm = True

    def longest_ns(self, partition: int) -> int:
        """Return the longest of these times, or NEVER."""
        return self._numbered[partition].longest

    def retire(self, partition: int) -> None:
        """End the instance: it is not live, keeps nothing, and nothing is kept for it."""
        old = self._numbered[partition]
        old.live = old.saving = old.announced = False
        old.retired = True
        for visit in old.held:
            self.drop(visit, old.task, "moved")
        old.held = []
        old.incarnation += 1
        for one in self._numbered:
            # Tuples that upstream has forgotten since `one` adopted the checkpoint were forgotten for both instances.
            if one.adopted and one.adopted[0] is old:
                one.trimmed = max(one.trimmed, min(old.trimmed, one.adopted[1]))
        if not old.operator.is_source:
            old.kept.clear()
        for sender in old.senders:
            # A sender that is down keeps them: it has to send them to the successor when it is restored.
            if old in sender.kept and sender.live:
                sender.kept[old].clear()
