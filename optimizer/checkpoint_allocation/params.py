"""The parameters of the methods: every number that decides what is searched, for how long, and when it stops.

A method gets its own part (`Parameters.lagrangian`, `.local_search`, ...). The defaults are those of all measurements
in the documentation. Constants that stay beside their code are no parameters: tolerances that a proof rests on, sizes
of arrays that are read at a time, and what a unit of work costs.

Sizes in pairs are J * N, checkpoints times nodes. "Per second" means per second of work (`Budget.limit`), which is the
time limit unless `work_per_s` says otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

PIECES = frozenset(
    {
        "chains",
        "column generation",
        "core dives",
        "dives",
        "few pairs",
        "forced moves",
        "iterated search",
        "linear core",
        "master",
        "meet in the middle",
        "move prices",
        "program first",
        "program last",
        "smoothed dual",
        "swaps",
    }
)
"""The parts of the search that may be left out, to measure what each one earns (`benchmarks/ablation.py`)."""


@dataclass(frozen=True, kw_only=True)
class SizeParameters:
    """Sizes [pairs] up to which a method is tried, and how far proofs of whole problems go."""

    tiny: int = 300
    """All assignments are enumerated, and the program alone is faster than a search before it."""
    program: int = 5_000
    """A mixed-integer program of the whole problem, or of the pairs that are left: HiGHS ends within minutes."""
    flow: int = 300_000
    """A flow network of all pairs; above, a core of them, which takes less memory."""
    columns: int = 200_000
    """Column generation: above, one evaluation of its bound takes longer than a second."""
    fallback: int = 200_000
    """The program is tried where the search finds nothing feasible, however long it takes."""
    sensitive: int = 2_000_000
    """The paper's heuristic is one of the starts: above, it takes seconds."""
    search: int = 20_000_000
    """Feasible answers are searched further: above, looking costs more than it finds."""
    enumerated_first: int = 500
    """Steps of enumeration after a proof by rounded numbers, and at least."""
    enumerated_most: int = 50_000
    """Steps of enumeration without a proof, at most: about two seconds."""
    enumerated_per_s: int = 25_000
    """Steps of enumeration for each second of the time limit."""


@dataclass(frozen=True, kw_only=True)
class CapacitatedParameters:
    """The division of the time where load capacities alone couple the checkpoints; shares are of the time limit."""

    first_pairs: int = 1_600
    """Pairs that prices leave, up to which a program comes before column generation: it mostly ends at once."""
    first_nodes: int = 1_000
    """Nodes of branch and bound of that program."""
    first_share: float = 0.3
    """It may last so long."""
    columns_work: float = 0.6
    """Work of column generation per second; the rest is for the last program."""
    columns_work_small: float = 0.9
    """The same up to `SizeParameters.program` pairs, where the last program is small."""
    columns_share: float = 0.8
    """All before the last program may last so long."""
    between: float = 0.1
    """Share of the work of column generation before a program, where a first program came near the bound."""
    program_share: float = 0.7
    """That program may last until then."""
    few_pairs: int = 800
    """Pairs left, up to which a program is made where a first program did badly."""
    rest_work: float = 1.25
    """Share of the work of column generation in all, where no program follows: nobody else needs the time."""
    rest_share: float = 0.95
    """It may last until then."""
    last_nodes_per_s: int = 2_000
    """Nodes of branch and bound of the last program."""


@dataclass(frozen=True, kw_only=True)
class LagrangianParameters:
    """Prices of the smoothed dual, the linear program on a core, and the search that starts from them."""

    kept: int = 16
    """Nodes of each checkpoint that are looked at: with 8 the bound of alike rows suffers, 32 take twice the time."""
    temperatures: tuple[tuple[float, int], ...] = ((1e-2, 20), (1e-3, 40), (1e-4, 60))
    """Falling temperatures of the smoothed dual (shares of the scale of costs), and steps of L-BFGS-B at each."""
    sample_pairs: int = 2_000_000
    """Pairs of the sample that the first prices are made from: they take a tenth of a second."""
    sample_temperatures: tuple[tuple[float, int], ...] = ((0.1, 200), (0.03, 64))
    """Temperatures for the sample, and nodes that are kept of each checkpoint."""
    sample_steps: int = 12
    """Steps at each of them."""
    memory: int = 20
    """Steps that L-BFGS-B remembers to know the curvature."""
    trials: int = 10
    """Lengths that L-BFGS-B tries in one step."""
    least_rise: float = 1e-9
    """Relative rise of the smoothed dual below which it stops."""
    slacker: tuple[float, ...] = (0.99, 0.97, 0.93)
    """Shares of the capacities that prices are made for, in turn, where the repair failed."""
    slacker_step: tuple[float, int] = (1e-3, 10)
    """Temperature and steps of these prices."""
    lp_pairs: int = 30_000
    """Pairs up to which prices are duals of the whole linear relaxation; above, subgradient steps."""
    subgradient_entries: int = 400_000_000
    """Costs that all subgradient steps together may read: some seconds."""
    core_pairs: int = 40_000
    """Pairs of the linear program on a core, beside the cheapest of each checkpoint: half a second."""
    dive_pairs: int = 8_000
    """Pairs of a program of a dive."""
    dive_pairs_per_node: int = 20
    """The same for each node, where that is more."""
    dive_far: float = 0.1
    """Heavy checkpoints keep nodes within this share of what is to be gained."""
    dive_nodes: int = 3
    """But no more nodes than so many."""
    dive_decided: float = 1 / 3
    """Share of the heavy checkpoints in parts that one program of a dive decides."""
    dive_programs: int = 8
    """Programs of a dive."""
    dive_part: float = 1e-6
    """A smaller share of a checkpoint is no part."""
    dive_excess: float = 10.0
    """Cost of load that is too much, in units of the largest price."""
    dives: tuple[float, ...] = (0.05, 0.02)
    """Shares of the smallest capacity above which a checkpoint is heavy: one dive for each."""
    dives_per_s: float = 0.4
    """Dives per second: each takes about a second at 100 x 5,000."""
    swaps: int = 12
    """Rounds of shifts and swaps, each with a wider margin."""
    close: float = 1e-6
    """Relative gap at which the search stops."""
    turns: tuple[tuple[float, float, int], ...] = ((1.0, 1.0, 12), (1.2, 0.2, 8))
    """One round of the search after the other: pairs for each node of the program on all nodes, its nodes of branch
    and bound per second, rounds of iterated local search per second."""
    round_rows: int = 8_000
    """Checkpoints above which there are fewer rounds and dives, in proportion."""


@dataclass(frozen=True, kw_only=True)
class LocalSearchParameters:
    """Repair, shifts and swaps, ejection chains, forced moves, iterated local search."""

    repairs: int = 400
    """Steps of repair: each moves one checkpoint of each node at most."""
    swap_pairs: int = 3_000_000
    """Swaps that one step compares: they are made in memory."""
    chain_lengths: tuple[int, ...] = (6, 4, 3, 2)
    """Moves of a chain at most; shorter ones follow where a longer one visits a checkpoint twice."""
    chain_pairs: int = 4_000
    """Pairs that chains go along."""
    chain_pairs_per_node: int = 20
    """The same for each node, where that is more."""
    chains: int = 300
    """Chains of each kind in one round."""
    chain_work: int = 3_000_000
    """Chains times pairs in one round: with many pairs a chain takes long."""
    forced: int = 40
    """Checkpoints that are forced to their cheapest node, the dearest first."""
    reliefs: int = 40
    """Chains that take away what is then too much."""
    noise: tuple[float, ...] = (1.3, 2.6, 3.9, 5.2)
    """Noise of one round of iterated local search after the other, in margins of the pairs."""
    kicks: tuple[int, ...] = (4, 8)
    """Chains with noise that begin a round."""
    fills: int = 20
    """Chains that fill room at the end of a round."""
    descents: int = 20
    """Checkpoints that chains begin with at the end of a round."""
    program_pairs: int = 300
    """Pairs of a program on all nodes: with more its first node takes long."""
    program_gap: float = 0.2
    """Share of what can be saved at which that program stops: the rest is left to the next one."""
    plain_passes: int = 6
    """Passes over all checkpoints by the plain search, which keeps copies apart."""
    plain_quick: int = 20_000_000
    """Pairs above which it makes one pass."""
    plain_swap_rows: int = 600
    """Checkpoints up to which it compares all swaps."""
    plain_swaps: int = 400
    """Swaps in one pass."""


@dataclass(frozen=True, kw_only=True)
class ColumnGenerationParameters:
    """Multipliers of the checkpoints, and allocations made of sets."""

    level: float = 1e-3
    """Level of the first subgradient steps above the bound, relative to it."""
    steps: int = 60
    """Subgradient steps before linear programs."""
    steps_alone: int = 300
    """Subgradient steps where linear programs would be too large."""
    patience: int = 10
    """Steps without a rise after which the level falls."""
    shrink: float = 0.6
    """By this factor."""
    rising: int = 3
    """Good steps in a row after which the level rises."""
    average: float = 0.1
    """Weight of the latest sets in their running average."""
    sets_kept: int = 60
    """Sets that a node remembers."""
    steps_share: float = 0.35
    """Share of the work for multipliers."""
    master_rows: int = 450
    """Checkpoints and nodes up to which linear programs are made: 1,680 degenerate rows did not end in minutes."""
    master_steps: int = 200
    """Linear programs at most."""
    master_iterations: int = 20_000
    """Iterations of one of them."""
    master_close: float = 1e-5
    """Predicted gain, relative to the bound, at which they stop."""
    box: float = 0.03
    """Largest change of a multiplier in the first of them, relative to the mean share of a checkpoint in the bound."""
    box_felt: float = 0.05
    """Share of multipliers at the box up to which the prediction is that of the master program."""
    box_factors: tuple[float, float, float] = (2.0, 0.5, 4.0)
    """The box times these, after a step that gains, one that loses, and where nothing more is predicted."""
    knapsack_core: int = 40
    """Items of the first core of a knapsack problem."""
    knapsack_tried: int = 30
    """Items that may fill what the head of the list leaves."""
    knapsack_table: int = 8_000_000
    """Entries of the tables for bounds of single pairs: 64 MB each."""
    coarse_room: int = 2**12
    """Units of a capacity where nothing is proven, above `SizeParameters.program` pairs: tables are shorter."""
    poor: float = 0.01
    """Gap of a start from which a dive into all nodes comes first."""
    program_pairs: int = 2
    """Pairs for each checkpoint of the program on all nodes that is made before dives."""
    program_nodes: int = 1
    """Nodes of branch and bound of it."""
    trusted: float = 3e-3
    """Gap of its answer up to which programs are better than dives."""
    group_steps: int = 20
    """Subgradient steps for a group of nodes."""
    group_sizes: tuple[int, ...] = (3, 4, 6, 8, 10, 12)
    """Nodes of a group that is packed from all its sets."""
    group_items: int = 64
    """Checkpoints on such a group, about: sets of more are too many."""
    unions: tuple[int, int, int] = (100_000, 200_000, 2_000_000)
    """Unions of sets that are looked at together: for each unit of work, at least, at most."""
    margin_factors: tuple[float, float] = (0.75, 1.4)
    """The margin of a group times these, where there is too much, and when it is tried again."""
    margin_attempts: int = 30
    """Margins that are tried for one group."""
    sets_share: float = 0.1
    """Sets of one node, as a share of the unions that are allowed."""
    alternatives: int = 4
    """Nodes of a checkpoint that are near, for drawing groups."""
    dive_sizes: tuple[int, ...] = (4, 6, 10)
    """Nodes that are dived into, beside half of them and all."""
    dive_steps: int = 20
    """Subgradient steps after a set was fixed."""
    dive_many: int = 30
    """Nodes above which several are fixed at once, with `dive_steps_many`."""
    dive_steps_many: int = 10
    """Subgradient steps there."""
    dive_at_once: int = 20
    """There one in so many nodes is fixed at once."""
    dive_noise: float = 0.5
    """Share by which the weight of a set varies in all dives but the first."""
    dive_failures: int = 3
    """Steps without a set that keeps the capacities, after which a dive ends."""
    dive_left: int = 4
    """Nodes that a dive leaves to a program."""
    dive_pairs: int = 300
    """Pairs of that program."""
    dive_nodes: int = 150
    """Nodes of branch and bound of it."""
    dive_level: float = 1e-4
    """Level of the steps in a dive, relative to the bound."""
    proof_steps: int = 30
    """Subgradient steps to see that a group is as good as it can be."""
    good: float = 0.25
    """Factor of work that brought something, when the next way is chosen."""
    idle: float = 3.0
    """Factor by which more work counts that brought nothing for long."""
    patient: float = 0.05
    """Share of the work that is long."""
    later: float = 3e-4
    """Work by which a group of n nodes begins later, times n squared: about that of a dive."""
    latest: float = 0.25
    """Share of the work by which it begins later at most."""


@dataclass(frozen=True, kw_only=True)
class ReoptimiseParameters:
    """A running plan improved with few moves."""

    kept: int = 12
    """Nodes of each checkpoint that are looked at."""
    temperature: float = 1e-3
    """Temperature of the smoothed dual (share of the scale of costs) where there are no former prices."""
    steps: int = 20
    """Its steps."""
    many: float = 0.1
    """Share of the checkpoints that may move from which on the count of moves says little."""
    missed: float = 1e-7
    """Share of the bound that moves outside the candidates may cost before other candidates are chosen."""
    price_rounds: int = 16
    """Linear programs of the moves."""
    price_pairs: int = 1_000
    """Moves in one of them."""
    price_pairs_per_move: int = 10
    """The same for each move that is allowed, in addition."""
    box: float = 0.2
    """Largest change of a price in the first of them, as a share of the median price."""
    box_factors: tuple[float, float] = (2.0, 0.4)
    """The box times these, after a step that gains half of what was predicted, and one that loses."""
    price_close: float = 1e-7
    """Predicted gain, as a share of the running cost, that is not worth another one."""
    chain_pairs: int = 3_000
    """Pairs that chains go along."""
    chains: int = 20
    """Chains of each kind."""
    tolls: tuple[float, ...] = (1.5, 0.8, 0.3)
    """Least saving of a move in each round, as a share of its worth in the linear program."""
    swaps: int = 4
    """Rounds of shifts and swaps."""
    program_size: float = 1.0
    """Pairs for each node of the program on all nodes that follows."""
    forced: int = 15
    """Forced moves, where the gap is larger than that of the former plan."""
    same: float = 5e-7
    """A gap that is larger by less is the same."""


@dataclass(frozen=True, kw_only=True)
class FlowParameters:
    """Minimum-cost flows where capacities only count."""

    rounds: int = 4
    """Flows, each with costs that are nearer to each other."""
    smaller: float = 0.25
    """Share of the largest cost below which a ceiling is worth another flow."""
    potential_rounds: int = 2_000
    """Rounds of shortest paths for the potentials."""
    kept: int = 12
    """Nodes of each checkpoint in the first core."""
    core_rounds: int = 40
    """Cores that are tried, each larger."""
    temperatures: tuple[float, ...] = (1e-2, 1e-3, 1e-4)
    """Falling temperatures of the smoothed dual that ranks the pairs (shares of the scale of costs)."""
    steps: int = 15
    """Its steps at each."""
    margin: float = 0.01
    """Margin of the first core, as a share of the scale of costs."""
    most_arcs: int = 30_000_000
    """Pairs of a core at most."""
    enter: int = 3
    """Pairs of one checkpoint that enter the core together."""


@dataclass(frozen=True, kw_only=True)
class ProgramParameters:
    """The mixed-integer program of a whole problem."""

    nodes_per_s: int = 2_000
    """Nodes of branch and bound per second, the deterministic limit."""
    nodes_least: int = 1_000
    """And so many in any case."""
    rounds: int = 3
    """Programs: a better answer leaves out more pairs, which makes the proof sharper."""
    random_pairs: int = 200_000
    """Pairs up to which `baseline` and `even` ask a program where the random walk got stuck."""
    random_seconds: float = 10.0
    """It may last so long [s]."""
    random_steps: int = 200
    """Steps of the random walk for each checkpoint."""


@dataclass(frozen=True, kw_only=True)
class InfeasibilityParameters:
    """The search for the smallest reason why there is no allocation."""

    share: float = 0.2
    """Share of the time limit for it."""
    least_s: float = 0.5
    """Or so much [s], where that time is over."""
    look_share: float = 0.3
    """Share of the time that is left, for a look whether the linear relaxation has a solution."""
    proof_s: float = 1.0
    """Time of the first linear program at least [s]: the clock is its only limit."""
    relaxation_pairs: int = 30_000
    """Pairs up to which a linear program is asked."""
    relaxation_work_per_s: int = 20_000_000
    """Work of linear programs, in iterations times entries, per second."""
    program_pairs_per_s: int = 20_000
    """Work of mixed-integer programs, in pairs, per second."""
    program_asking: int = 100
    """Work of asking one, whatever its size."""
    program_nodes: int = 500
    """Nodes of branch and bound of one."""
    programs: int = 20
    """Programs for one question."""
    enumerated: int = 20_000
    """Steps of enumeration."""
    heavy_shares: int = 8
    """Heavy is what takes at least one part in so many of the largest capacity."""
    heavy_pairs: int = 5_000_000
    """Pairs up to which heavy checkpoints are counted."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """All parameters of `solve`, one part for each method.

    `work_per_s` is work for each second of the time limit: below 1 less is searched in a longer time, so that the clock
    decides nothing on a machine that does other work. `pieces` says which parts of the search take part, of PIECES.
    """

    sizes: SizeParameters = SizeParameters()
    capacitated: CapacitatedParameters = CapacitatedParameters()
    lagrangian: LagrangianParameters = LagrangianParameters()
    local_search: LocalSearchParameters = LocalSearchParameters()
    columns: ColumnGenerationParameters = ColumnGenerationParameters()
    reoptimise: ReoptimiseParameters = ReoptimiseParameters()
    flow: FlowParameters = FlowParameters()
    program: ProgramParameters = ProgramParameters()
    infeasibility: InfeasibilityParameters = InfeasibilityParameters()
    work_per_s: float = 1.0
    pieces: frozenset[str] = PIECES


DEFAULT = Parameters()
