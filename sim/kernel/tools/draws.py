"""Twins of `sim.draws` for compiled code: the same bits of the same numbers.

Ids, codes of streams and hashes are uint64; a signed one is reinterpreted, since Numba makes a float of signed and
unsigned together. Times are int64 nanoseconds. Nothing here depends on the order of calls.

An inverse that only SciPy has is called by its address. Compiled code that is kept on disk must not hold an address,
so it is an argument: `inverse`, valid in this process only.

Exponential times without the library's logarithm, where that cannot make a difference.

A time is -mean * log1p(-u), rounded to whole nanoseconds; the logarithm is all it costs. Here it is a series, several
times in a loop at once. It is about as good as the library's but not equal to it. So what is too close to the middle
between two nanoseconds, where a last digit would decide, is left to the library: the rounding test of Ziv (ACM TOMS
1991).
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np

from models.distributions import Deterministic, Erlang, Exponential, Gamma, LogNormal, TimeDistribution, Uniform
from models.scenario.job import Operator
from models.scenario.nexmark import ACTIVE_PERSONS, AHEAD, AUCTIONS, HOT_EVERY, PERSONS, REFERENCES
from models.scenario.workload import SellerKeys, ZipfKeys
from models.special_functions import cython_functions
from sim.draws import at_least_one_ns, code_of, cumulative_weights
from sim.kernel.tools.cache import Intrinsic, kernel

UNSURE = 0
"""In place of a time that only the library's logarithm can tell."""

# u is known to 2^-54 and the logarithm is below 37: its own error, that of the library and those of the products are
# together below 2^-45 of the mean. What is kept apart leaves room for a library that is wrong in its last six bits.
_MARGIN = 2.0**-42
_LONGEST_MEAN_NS = 2.0**38  # of a longer one too many would be unsure; shorter ones stay below 2^51 ns

_LN_2 = 0.6931471805599453
_TO_ROOT = 0x95F619980C433  # from the bits of the root of one half to those of one: mantissas come to lie between roots
_C1, _C2, _C3, _C4, _C5, _C6, _C7, _C8 = (2 / n for n in range(3, 18, 2))
_WHOLE = 1.5 * 2.0**52  # added to a number below 2^51 it leaves no fraction, and the number in the last bits
_WHOLE_BITS = int(np.float64(_WHOLE).view(np.int64))


@kernel
def minus_log(x: Any) -> Any:
    """Return -log(x) for x from 2^-53 to 1, with an error below 2^-45.

    x = 2^exponent m with m between the roots of 1/2 and 2, and log m = 2 artanh(s) with s = (m - 1) / (m + 1) and
    s^2 < 0.0295: what is left out of the series is below 2^-51.
    """
    bits = np.float64(x).view(np.int64)
    exponent = ((bits + _TO_ROOT) >> 52) - 1023
    f = np.int64(bits - (exponent << 52)).view(np.float64) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    even = w * (_C2 + w * (_C4 + w * (_C6 + w * _C8)))
    odd = z * (_C1 + w * (_C3 + w * (_C5 + w * _C7)))
    exponent_as_float = np.int64(exponent + _WHOLE_BITS).view(np.float64) - _WHOLE
    return -(2.0 * s + s * (even + odd)) - exponent_as_float * _LN_2


@kernel
def exponential_ns(mean_ns: Any, u: Any) -> Any:
    """Return the time [ns] at this uniform number, at least 1, or UNSURE."""
    ns = mean_ns * minus_log(1.0 - u)
    shifted = ns + _WHOLE
    # No branch: several are drawn at once.
    unsure = (mean_ns > _LONGEST_MEAN_NS) | (abs(ns - (shifted - _WHOLE)) > 0.5 - mean_ns * _MARGIN)
    drawn = max(np.int64(1), np.float64(shifted).view(np.int64) - _WHOLE_BITS)
    return np.int64(UNSURE) if unsure else drawn


NO_SERVICE, DETERMINISTIC, EXPONENTIAL, UNIFORM, GAMMA, LOGNORMAL = range(-1, 5)  # Erlang is a gamma law
SAME_KEY, UNIFORM_KEYS, ZIPF_KEYS, SELLERS = range(4)
LONGEST_NS = 2**62
"""In place of longer times, so that sums with an instant of a run stay below 2^63; 146 years."""

OPERATOR_DRAWS = np.dtype(
    [
        ("law", np.int64),
        ("a", np.float64),  # exponential: mean; uniform: low; gamma: shape; lognormal: mu
        ("b", np.float64),  # uniform: width; gamma: scale; lognormal: sigma
        ("stream", np.uint64),
        ("fixed_ns", np.int64),
        ("inverse", np.int64),  # address; holds in this process
        ("scale_ns", np.float64),  # of the law whose quantiles are interpolated
        ("quantiles", np.int64),  # where these begin, or -1
        ("whole", np.int64),  # outputs of every tuple
        ("rest", np.float64),  # share of tuples that have one more
        ("count_stream", np.uint64),
        ("key_law", np.int64),
        ("keys", np.int64),
        ("key_first", np.int64),  # Zipf: where its part of `cumulative` begins
        ("key_stream", np.uint64),
    ]
)
"""The laws of an operator, as `pack_draws` packs them for the functions below."""

_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_UNIT = 2.0**-53
_BELOW_ONE = 1 - _UNIT
_NS = 1e9
_LONGEST = float(LONGEST_NS)
_HOT_SELLER = REFERENCES["auction.seller"].hot


_call_1, _call_2 = Intrinsic("call_1"), Intrinsic("call_2")  # a function at an address, with so many arguments


@kernel
def mix(x: Any) -> Any:
    """Return 64 well mixed bits of 64 bits: the finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014)."""
    x = np.uint64(x)
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@kernel
def source_id(task_code: Any, sequence: Any) -> Any:
    """Return the id of the `sequence`-th tuple of a source task."""
    return mix(np.uint64(task_code) + np.uint64(sequence) * _GOLDEN)


@kernel
def child_id(parent: Any, operator_code: Any, index: Any) -> Any:
    """Return the id of the `index`-th output that an operator makes of tuple `parent`."""
    return mix((np.uint64(parent) ^ np.uint64(operator_code)) + (np.uint64(index) + np.uint64(1)) * _GOLDEN)


@kernel
def uniform(tuple_id: Any, stream: Any) -> Any:
    """Return a number strictly between 0 and 1 for this tuple and purpose."""
    bits = mix(np.uint64(tuple_id) + np.uint64(stream)) >> np.uint64(11)
    return min((np.float64(np.int64(bits)) + 0.5) * _UNIT, _BELOW_ONE)


@kernel
def whole_ns(ns: Any) -> Any:
    """Return a time in whole nanoseconds, ties to even, from 1 to LONGEST_NS."""
    if ns >= _LONGEST:
        return np.int64(LONGEST_NS)
    return max(np.int64(1), np.int64(np.rint(ns)))


@kernel
def time_ns(law: Any, a: Any, b: Any, stream: Any, fixed_ns: Any, inverse: Any, tuple_id: Any) -> Any:
    """Return `service_ns` from the single fields of OPERATOR_DRAWS.

    Inverse transform: the quantile of the law at the tuple's uniform number, in whole nanoseconds, at least 1.
    """
    if law <= DETERMINISTIC:
        return np.int64(fixed_ns)
    u = uniform(tuple_id, stream)
    if law == EXPONENTIAL:
        ns = exponential_ns(a * _NS, u)
        if ns != UNSURE:
            return ns
        seconds = -a * math.log1p(-u)
    elif law == UNIFORM:
        seconds = a + b * u
    elif law == GAMMA:
        seconds = b * _call_2(inverse, a, u)
    else:
        seconds = math.exp(a + b * _call_1(inverse, u))
    return whole_ns(seconds * _NS)


@kernel
def standard_quantile(law: Any, parameter: Any, inverse: Any, u: Any) -> Any:
    """Return the quantile at u of a gamma law with that shape, or of a lognormal one with that sigma, of scale 1."""
    if law == GAMMA:
        return _call_2(inverse, parameter, u)
    return math.exp(parameter * _call_1(inverse, u))


@kernel
def service_ns(draws: Any, tuple_id: Any) -> Any:
    """Return the service time [ns] of a tuple on a host of speed 1; 0 at an operator without a service."""
    return time_ns(draws.law, draws.a, draws.b, draws.stream, draws.fixed_ns, draws.inverse, tuple_id)


@kernel
def output_count(draws: Any, tuple_id: Any) -> Any:
    """Return how many outputs an operator makes of a tuple."""
    if draws.rest > 0 and uniform(tuple_id, draws.count_stream) < draws.rest:
        return draws.whole + 1
    return draws.whole


@kernel
def output_key(draws: Any, cumulative: Any, tuple_id: Any, key: Any) -> Any:
    """Return the key of an output with this id: `key` if the operator leaves keys alone, else one of its own.

    `cumulative` holds the distribution functions of all operators with Zipf keys, one after the other.
    """
    if draws.key_law == SAME_KEY:
        return np.int64(key)
    u = uniform(tuple_id, draws.key_stream)
    if draws.key_law == UNIFORM_KEYS:
        return min(draws.keys - 1, np.int64(u * draws.keys))
    if draws.key_law == SELLERS:
        return seller_of(key, u)
    low, high = np.int64(0), draws.keys
    while low < high:  # the first entry above u
        middle = (low + high) >> 1
        if cumulative[draws.key_first + middle] <= u:
            low = middle + 1
        else:
            high = middle
    return min(draws.keys - 1, low)


@kernel
def seller_of(auction: Any, u: Any) -> Any:
    """Return the seller of an auction, at a uniform number: the twin of `sim.nexmark_keys`."""
    newest = np.int64(auction) // AUCTIONS * PERSONS
    if u < _HOT_SELLER:
        return newest // HOT_EVERY * HOT_EVERY
    first = max(newest + 1 - ACTIVE_PERSONS, np.int64(0))
    width = newest - first + 1 + AHEAD
    return first + min(np.int64((u - _HOT_SELLER) / (1 - _HOT_SELLER) * width), width - 1)


@kernel
def shuffle_target(tuple_id: Any, edge_code: Any, partitions: Any) -> Any:
    """Return the index of the partition downstream that a shuffle gives the tuple to."""
    return np.int64(mix(np.uint64(tuple_id) ^ np.uint64(edge_code)) % np.uint64(partitions))


@kernel
def takes(tuple_id: Any, stream: Any, share: Any) -> Any:
    """Return whether an edge that reads a share of the tuples reads this one."""
    return uniform(tuple_id, stream) < share


def pack_draws(
    operator: Operator, seed: int, replication: int, name: str, key_first: int = 0
) -> tuple[np.ndarray, np.ndarray]:
    """Return one record of OPERATOR_DRAWS, shape (), and the distribution function of its Zipf keys, empty without.

    The latter is to stand at `key_first` of what `output_key` gets. The record holds an address: it is of no use to
    another process.
    """
    record = np.zeros((), OPERATOR_DRAWS)
    record["quantiles"] = -1
    for field, purpose in (("stream", "service"), ("count_stream", "selectivity"), ("key_stream", "key")):
        record[field] = code_of(seed, replication, name, purpose)
    for field, value in _law_fields(operator.service).items():
        record[field] = value
    write_count(record, operator.most_selective)
    keys = operator.output.keys if operator.output else None
    if keys is None:
        return record, np.zeros(0)
    if isinstance(keys, SellerKeys):
        record["key_law"] = SELLERS
        return record, np.zeros(0)
    zipf = isinstance(keys, ZipfKeys)
    record["key_law"] = ZIPF_KEYS if zipf else UNIFORM_KEYS
    record["keys"], record["key_first"] = keys.count, key_first
    return record, cumulative_weights(keys) if zipf else np.zeros(0)


def write_count(record: np.ndarray, selectivity: float) -> None:
    """Write a selectivity into a record of OPERATOR_DRAWS, shape ()."""
    whole = math.floor(selectivity)
    record["whole"], record["rest"] = whole, selectivity - whole


def pack_time(law: TimeDistribution | None, seed: int, replication: int, name: str, purpose: str) -> np.ndarray:
    """Return a record of OPERATOR_DRAWS, shape (), in which only what `service_ns` reads is set: a time of a purpose.

    It holds an address, too.
    """
    record = np.zeros((), OPERATOR_DRAWS)
    record["quantiles"], record["stream"] = -1, code_of(seed, replication, name, purpose)
    for field, value in _law_fields(law).items():
        record[field] = value
    return record


def _law_fields(law: TimeDistribution | None) -> dict[str, float]:
    """Return the fields that describe a service time."""
    if law is None:
        return {"law": NO_SERVICE}
    if isinstance(law, Deterministic):
        return {"law": DETERMINISTIC, "fixed_ns": min(at_least_one_ns(law.value_s), LONGEST_NS)}
    if isinstance(law, Exponential):
        return {"law": EXPONENTIAL, "a": law.mean_s}
    if isinstance(law, Uniform):
        return {"law": UNIFORM, "a": law.low_s, "b": law.high_s - law.low_s}
    if isinstance(law, (Gamma, Erlang)):
        scale_s = law.mean_s / law.shape
        return {"law": GAMMA, "a": law.shape, "b": scale_s, "inverse": inverse_of(GAMMA), "scale_ns": scale_s * _NS}
    if isinstance(law, LogNormal):
        sigma = math.sqrt(math.log1p(law.cv**2))
        mu = math.log(law.mean_s) - sigma**2 / 2
        scale_ns = math.exp(mu) * _NS
        return {"law": LOGNORMAL, "a": mu, "b": sigma, "inverse": inverse_of(LOGNORMAL), "scale_ns": scale_ns}
    raise TypeError(f"no code for {law!r}")


def inverse_of(law: int) -> int:
    """Return where the inverse of a law is in this process; loads SciPy, which most runs do not need."""
    name = {GAMMA: "gammaincinv", LOGNORMAL: "ndtri"}[law]
    capsule = ctypes.py_object(cython_functions().__pyx_capi__[name])
    name_of, pointer_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, pointer_of.restype = ctypes.c_char_p, ctypes.c_void_p
    pointer_of.argtypes = ctypes.py_object, ctypes.c_char_p
    return int(pointer_of(capsule, name_of(capsule)))
