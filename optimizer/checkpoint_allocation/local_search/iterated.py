"""Iterated local search over ejection chains: a local optimum is left, and another one is looked for.

Where no chain saves cost any more, several at once may. In a round some checkpoints that are dear where they are begin
chains that save by costs with noise: what they end with may cost more, but keeps the capacities. Then chains that save
by the true costs go through the nodes that were touched. A round that ends cheaper than all before it is kept, else
what was before it comes back. (Lourenco, Martin and Stuetzle, Iterated local search, 2003; noise: Charon and Hudry
1993.) Rounds are counted and draws have a seed: the same problem gives the same answer.
"""

from __future__ import annotations

import numpy as np

from models.checked_arrays import FloatArray, IntArray
from optimizer.checkpoint_allocation.budget import Budget
from optimizer.checkpoint_allocation.local_search.ejection_chains import EjectionChains, descended

_LEAST = 1e-12  # relative: less is not saved


def iterated_local_search(chains: EjectionChains, rounds: int, budget: Budget, *, target: float, seed: int = 0) -> bool:
    """Improve the state of some chains; False when the clock struck before the rounds were over.

    Stops when the answer is within `target` of the bound that the state's prices prove.
    """
    state, noise, kicks = chains.state, chains.state.parameters.noise, chains.state.parameters.kicks
    random = np.random.default_rng(seed)
    best, cost = state.at.copy(), state.cost()
    for turn in range(rounds):
        if budget.late:
            return False
        if state.losses().sum() <= target:
            return True
        size = noise[turn % len(noise)] * chains.margin
        dear = state.dear()
        if not dear.any():
            return True
        begin = random.choice(len(dear), kicks[turn // len(noise) % len(kicks)], p=dear / dear.sum())
        _kicked(chains, begin, size * chains.drawn(random))
        descended(chains, best)
        found = state.cost()
        if found < cost - _LEAST * abs(cost):
            best, cost = state.at.copy(), found
        else:
            state.place(best)
    chains.follow()
    return True


def _kicked(chains: EjectionChains, begin: IntArray, noise: FloatArray) -> None:
    """Chains from some checkpoints that save by costs with noise."""
    chains.follow(noise)
    for row in begin.tolist():
        if chains.improve(row):
            chains.follow(noise)
    chains.follow()
