"""The scenario: a description, and what can be asked of it.

>>> from holdfast import read_scenario
>>> scenario = read_scenario("examples/two-hosts.toml").scenario
>>> scenario.fault_tolerance.interval_s, scenario.operators["count"].key_groups
(5.0, 8)
>>> sorted(scenario.graph().edges)
[('count', 'out'), ('orders', 'count')]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from models.scenario.description import ScenarioDescription

if TYPE_CHECKING:
    import networkx as nx

    from models.scenario.inputs import RunInputs


class Scenario(ScenarioDescription):
    """Job, workload, cluster, fault tolerance and events of one question, and how often it is answered."""

    def graph(
        self, of: Literal["operators", "tasks", "placement"] = "operators", inputs: RunInputs | None = None
    ) -> nx.DiGraph[str]:
        """Return the job as a networkx graph, to analyse and draw: its operators, its tasks, or tasks on hosts.

        Attributes are in SI units with the unit in the name (`models.topology.job_graph`); rates count recorded series
        where `inputs` has them. Each call makes a new graph.
        """
        # The only place where a description reaches packages that are built on it. Imported here, the schema of a
        # scenario loads neither networkx nor the models of steady states.
        from models.topology.job_graph import graph_of  # noqa: PLC0415

        return graph_of(self, of, inputs)
