"""How a key finds its key group: a hash that every engine computes alike, modulo the number of key groups."""

from __future__ import annotations

import functools
import zlib

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.scenario.workload import UniformKeys, ZipfKeys

PLAIN, SALTED = "crc32", "crc32-splitmix64"
HASHES = (PLAIN, SALTED)  # of one copy of a trace, of several with a salt each
_GOLDEN, _FIRST, _SECOND = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


def crc32_group(key: str, groups: int) -> int:
    """Return the key group of `key`, 0 .. groups - 1: CRC-32 (as in zlib) of its UTF-8 bytes modulo `groups`.

    Raises InputError for fewer than one group.

    >>> crc32_group("N14228", 32)
    14
    """
    if groups < 1:
        raise InputError.at("key_groups", groups, "must be at least 1")
    return crc32(key) % groups


def salted_groups(crc32: npt.ArrayLike, salt: int, groups: int) -> npt.NDArray[np.int64]:
    """Return the key groups (n,) of keys whose CRC-32 are given (n,), other ones for each salt, 0 .. 2^64 - 1.

    CRC-32 of key and salt would not do: it numbers the same groups in another order where their number is a power of
    two. So the bits of both are mixed first. Raises InputError for fewer than one group.

    >>> salted_groups([crc32("N14228"), crc32("N24211")], 1, 32).tolist()
    [9, 14]
    """
    if groups < 1:
        raise InputError.at("key_groups", groups, "must be at least 1")
    hashed = np.asarray(crc32, dtype=np.uint64)
    mixed = _mixed(hashed ^ _mixed(np.full_like(hashed, salt) + _GOLDEN))
    return (mixed % np.uint64(groups)).astype(np.int64)


def crc32(key: str) -> int:
    """Return the CRC-32 (as in zlib) of the UTF-8 bytes of `key`."""
    return zlib.crc32(key.encode("utf-8"))


def _mixed(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return well mixed bits: the finaliser of SplitMix64 (Steele, Lea, Flood, OOPSLA 2014)."""
    x = (x ^ (x >> np.uint64(30))) * _FIRST
    x = (x ^ (x >> np.uint64(27))) * _SECOND
    return x ^ (x >> np.uint64(31))


@functools.lru_cache(maxsize=8)
def groups_of_keys(count: int, groups: int) -> np.ndarray:
    """Return the groups (count,) of keys 0 .. count - 1 in decimal: `crc32_group(str(key), groups)`; read-only."""
    if groups < 1:
        raise InputError.at("key_groups", groups, "must be at least 1")
    table = _crc_table()
    found = np.empty(count, np.int64)
    start, digits = 0, 1
    # All keys with the same number of digits at once: byte by byte, as CRC-32 goes, but for whole arrays.
    while start < count:
        stop = min(count, 10**digits)
        keys = np.arange(start, stop, dtype=np.int64)
        crc = np.full(keys.size, 0xFFFFFFFF, np.uint32)
        for place in range(digits - 1, -1, -1):
            byte = (keys // 10**place % 10 + ord("0")).astype(np.uint32)
            crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
        found[start:stop] = (crc ^ 0xFFFFFFFF).astype(np.int64) % groups
        start, digits = stop, digits + 1
    found.setflags(write=False)
    return found


@functools.lru_cache(maxsize=1)
def _crc_table() -> np.ndarray:
    """Return the CRC-32 of each byte (RFC 1952, section 8), (256,) uint32."""
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, np.uint32(0xEDB88320) ^ (crc >> 1), crc >> 1).astype(np.uint32)
    return crc


@functools.lru_cache(maxsize=64)
def group_shares(keys: UniformKeys | ZipfKeys, groups: int) -> np.ndarray:
    """Return how likely a tuple belongs to each key group, (groups,), sum 1, read-only.

    Key k of a Zipf distribution (k = 0 is the most frequent) has weight 1 / (k + 1)^exponent.
    """
    weights = np.ones(keys.count)
    if isinstance(keys, ZipfKeys):
        weights = np.arange(1, keys.count + 1, dtype=float) ** -keys.exponent
    shares = np.bincount(groups_of_keys(keys.count, groups), weights=weights, minlength=groups)
    normed = np.asarray(shares / shares.sum())
    normed.setflags(write=False)
    return normed
