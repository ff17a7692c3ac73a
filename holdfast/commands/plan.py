"""`holdfast plan`: a group with a command for each kind of problem."""

from __future__ import annotations

import typer

from holdfast.lazy_commands import LazyCommand, LazyGroup

# In the order of the help page.
PLANS = {
    "selection": LazyCommand(
        "plan_selection", "selection", "Choose operators, or levels of replication, of most value within a capacity."
    ),
    "queries": LazyCommand(
        "plan_selection",
        "queries",
        "Choose queries of most value whose operators all fit a capacity, then single operators for the rest.",
    ),
    "steps": LazyCommand(
        "plan_selection",
        "steps",
        "Arrange moves in the fewest steps, or with sizes in the shortest time, one move at a time per host.",
    ),
    "interval": LazyCommand(
        "plan_selection",
        "interval",
        "Choose how often to make checkpoints: least slowdown, for streams under a recovery target.",
    ),
    "placement": LazyCommand(
        "plan_placement",
        "placement",
        "Choose the host of every instance: fewest colours on a host, then fewest hosts, or as the goal says.",
    ),
    "replicas": LazyCommand(
        "plan_replicas",
        "replicas",
        "Choose which operators get replicas, and their hosts, by importance; each plan with its exact availability.",
    ),
    "checkpoints": LazyCommand("plan_checkpoints", "checkpoints", "Choose the node of every checkpoint."),
}


class _Plans(LazyGroup):
    """The commands of `holdfast plan`."""

    table = PLANS


app = typer.Typer(
    cls=_Plans,
    add_completion=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    help="Find the best plan for a problem file.",
)


@app.callback()
def _plan() -> None:
    """Find the best plan for a problem file."""
