"""Migration protocols by name: of key groups, of whole dataflows, and of plans of bins.

To add one for key groups, write its class in a file here, and name it below and in `PROTOCOLS` of
`models.scenario.events`. `direct.SentState` is the base of those whose state travels; `replicate` makes active
replicas, and no event can ask for it.
"""

from __future__ import annotations

from sim.migration.move import MoveProtocol
from sim.migration.protocols.ccr import CCR
from sim.migration.protocols.cpa import CPA
from sim.migration.protocols.cpal import CPAL, CaughtUpCPAL
from sim.migration.protocols.dcr import DCR
from sim.migration.protocols.direct import Direct
from sim.migration.protocols.dsm import DSM
from sim.migration.protocols.lazy_move import LazyMove
from sim.migration.protocols.megaphone import Megaphone
from sim.migration.protocols.pause_and_resume import PauseAndResume
from sim.migration.protocols.pause_drain_resume import PauseDrainResume
from sim.migration.protocols.replication import Replication
from sim.migration.protocols.stop_and_restart import StopAndRestart
from sim.migration.rebalance import RebalanceProtocol
from sim.migration.reconfiguration import ReconfigurationProtocol

PROTOCOLS: dict[str, type[MoveProtocol]] = {
    "direct": Direct,
    "cpa": CPA,
    "cpal": CPAL,
    "cpal_caught_up": CaughtUpCPAL,
    "lazy_move": LazyMove,
    "replication": Replication,
}
PROTOCOLS_WITHOUT_CHECKPOINTS: dict[str, type[MoveProtocol]] = {"pause_drain_resume": PauseDrainResume}
REBALANCE_PROTOCOLS: dict[str, type[RebalanceProtocol]] = {"dsm": DSM, "dcr": DCR, "ccr": CCR}
RECONFIGURATION_PROTOCOLS: dict[str, type[ReconfigurationProtocol]] = {
    "megaphone": Megaphone,
    "stop-and-restart": StopAndRestart,
    "pause-and-resume": PauseAndResume,
}
