"""Random numbers of a run: each is a function of its purpose, never of the order of events.

Random numbers of a tuple (its service times, whether an operator lets it through) are hashes of seed, replication,
purpose and tuple id: a replay reads the same numbers again, and another route does not change them. A named entity (the
arrivals of one source task, the failures of one host) has a generator of its own.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np

from models.distributions import (
    Deterministic,
    Erlang,
    Exponential,
    Gamma,
    LogNormal,
    TimeDistribution,
    Uniform,
)
from models.scenario.job import Operator
from models.scenario.scenario import Scenario
from models.scenario.workload import OutputKeys, SellerKeys, UniformKeys, ZipfKeys
from models.special_functions import special_function
from models.units import to_ns
from sim.nexmark_keys import seller_of

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_NS = 1e9
FAR_NS = 1 << 62  # in place of longer times, so that sums with an instant of a run stay below 2^63
POSTPONE = "postpone"  # purpose of the draws that post-date outputs
POLL = "poll"  # and of those that say what a poll takes
_BELOW_ONE = 1 - 2.0**-53  # the largest of the hashes would round to 1


def mix(x: int) -> int:
    """Return 64 well mixed bits of a 64-bit number (the finaliser of SplitMix64, Steele et al., OOPSLA 2014)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _MASK
    return x ^ (x >> 31)


def code_of(*parts: object) -> int:
    """Return a 64-bit code of a name: the same on every machine and in every process."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def source_id(task_code: int, sequence: int) -> int:
    """Return the id of the `sequence`-th tuple of a source task."""
    return mix((task_code + sequence * _GOLDEN) & _MASK)


def child_id(parent: int, operator_code: int, index: int) -> int:
    """Return the id of the `index`-th output that an operator makes of `parent`; independent of task and time."""
    return mix((parent ^ operator_code) + (index + 1) * _GOLDEN & _MASK)


def window_id(window_code: int, partition: int, key: int, window: int) -> int:
    """Return the id of a key in a window of a partition; its outputs get their ids from it as from a tuple's."""
    return child_id(child_id(window_code, partition, key), window_code, window)


def pair_id(join_code: int, one: int, other: int) -> int:
    """Return the id of two tuples that a join combines, in either order; their outputs get their ids from it."""
    return child_id(child_id(min(one, other), join_code, 0), max(one, other), 0)


def uniform(tuple_id: int, stream_code: int) -> float:
    """Return a number strictly between 0 and 1 for this tuple and purpose."""
    return min(((mix((tuple_id + stream_code) & _MASK) >> 11) + 0.5) * 2.0**-53, _BELOW_ONE)


def numbered(code: int, numbers: np.ndarray) -> np.ndarray:
    """Return `source_id` of many numbers, (n,) uint64."""
    return _mixed(np.uint64(code) + numbers.astype(np.uint64) * np.uint64(_GOLDEN))


def uniforms(ids: np.ndarray, stream_code: int) -> np.ndarray:
    """Return `uniform` of many ids, (n,)."""
    bits = _mixed(ids + np.uint64(stream_code)) >> np.uint64(11)
    found: np.ndarray = np.minimum((bits.astype(float) + 0.5) * 2.0**-53, _BELOW_ONE)
    return found


def _mixed(x: np.ndarray) -> np.ndarray:
    """Return `mix` of many numbers, (n,) uint64, which wrap around."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = x ^ (x >> np.uint64(31))
    return mixed


def delays_ns(law: TimeDistribution, of: np.ndarray) -> np.ndarray:
    """Return times [ns] of a law at these uniform numbers, (n,) int64."""
    if isinstance(law, Deterministic):
        return np.full(of.shape, at_least_one_ns(law.value_s), np.int64)
    inverse = _inverse(law)
    return np.array([min(at_least_one_ns(inverse(u)), FAR_NS) for u in of.tolist()], np.int64)


def delay_ns(law: TimeDistribution, number: int, stream: int) -> int:
    """Return the time [ns] that a stream draws for one number."""
    (drawn,) = delays_ns(law, uniforms(np.array([number], np.uint64), stream)).tolist()
    return int(drawn)


def event_ns(scenario: Scenario, replication: int, name: str) -> int:
    """Return when the event of this name happens in a replication; what is drawn depends on nothing else."""
    found, code = scenario.events[name], code_of(scenario.seed, replication, "event", name)
    return to_ns(found.fixed_s) + sum(delay_ns(law, 0, code) for law in found.laws)


def generator(seed: int, replication: int, *name: object) -> np.random.Generator:
    """Return the generator of one named entity in one replication."""
    code = code_of(*name)
    sequence = np.random.SeedSequence(seed, spawn_key=(replication, code >> 32, code & 0xFFFFFFFF))
    return np.random.Generator(np.random.PCG64(sequence))


def at_least_one_ns(seconds: float) -> int:
    """Return a drawn time in whole nanoseconds, ties to even, never zero."""
    return max(1, round(seconds * _NS))


def time_sampler(
    law: TimeDistribution, seed: int, replication: int, operator: str, purpose: str = "service"
) -> Callable[[int], int]:
    """Return a function from a tuple id to its time [ns] of that purpose: the quantile at its uniform number."""
    if isinstance(law, Deterministic):
        fixed = at_least_one_ns(law.value_s)
        return lambda _: fixed
    stream = code_of(seed, replication, operator, purpose)
    inverse = _inverse(law)
    return lambda tuple_id: at_least_one_ns(inverse(uniform(tuple_id, stream)))


def _inverse(law: TimeDistribution) -> Callable[[float], float]:
    if isinstance(law, Exponential):
        mean = law.mean_s
        return lambda u: -mean * math.log1p(-u)
    if isinstance(law, Uniform):
        low, width = law.low_s, law.high_s - law.low_s
        return lambda u: low + width * u
    if isinstance(law, (Gamma, Erlang)):
        shape, scale, quantile = law.shape, law.mean_s / law.shape, special_function("gammaincinv")
        return lambda u: scale * float(quantile(shape, u))
    if isinstance(law, LogNormal):
        sigma = math.sqrt(math.log1p(law.cv**2))
        mu, normal = math.log(law.mean_s) - sigma**2 / 2, special_function("ndtri")
        return lambda u: math.exp(mu + sigma * float(normal(u)))
    raise TypeError(f"no inverse for {law!r}")


def counts_by_input(
    operator: Operator, seed: int, replication: int, name: str
) -> Mapping[str, Callable[[int], int]] | None:
    """Return upstream operator -> `count_sampler` of its tuples; None where all inputs have the same."""
    if not isinstance(operator.selectivity, Mapping):
        return None
    return {upstream: count_sampler(made, seed, replication, name) for upstream, made in operator.selectivity.items()}


def count_sampler(selectivity: float, seed: int, replication: int, operator: str) -> Callable[[int], int]:
    """Return a function from a tuple id to its number of outputs: the whole part, one more as likely as the rest."""
    whole = math.floor(selectivity)
    rest = selectivity - whole
    if rest == 0:
        return lambda _: whole
    stream = code_of(seed, replication, operator, "selectivity")
    return lambda tuple_id: whole + (uniform(tuple_id, stream) < rest)


@lru_cache(maxsize=8)
def cumulative_weights(keys: UniformKeys | ZipfKeys) -> np.ndarray:
    """Return the distribution function of the keys 0 .. count - 1, (count,), last entry 1, read-only."""
    if isinstance(keys, ZipfKeys):
        weights = np.arange(1, keys.count + 1, dtype=float) ** -keys.exponent
    else:
        weights = np.ones(keys.count)
    cumulative = np.cumsum(weights)
    cumulative /= cumulative[-1]
    cumulative.setflags(write=False)
    return cumulative


def key_sampler(keys: OutputKeys, seed: int, replication: int, operator: str) -> Callable[[int, int], int]:
    """Return a function from the id of an output, and the key that came, to its key: where there are new keys."""
    stream = code_of(seed, replication, operator, "key")
    if isinstance(keys, SellerKeys):
        return lambda tuple_id, key: seller_of(key, uniform(tuple_id, stream))
    if isinstance(keys, UniformKeys):
        count = keys.count
        return lambda tuple_id, _: int(uniform(tuple_id, stream) * count)
    cumulative = cumulative_weights(keys)
    last = keys.count - 1
    return lambda tuple_id, _: min(last, int(cumulative.searchsorted(uniform(tuple_id, stream), side="right")))
