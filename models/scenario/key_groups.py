"""Key groups: a key finds its own by a hash that all planes, plans and profiles compute alike.

Keys of a workload are numbers from 0 on. `crc32` hashes their decimal digits; the hashes of Flink are those of
`KeyGroupRangeAssignment` for a key that is a number or a string of the same digits in Java, and that of Kafka is the
one of `BuiltInPartitioner` for the string.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Literal

import numpy as np
import numpy.typing as npt

from models.errors import InputError
from models.scenario.workload import NexmarkKeys, SellerKeys, UniformKeys, ZipfKeys

KeyHash = Literal["crc32", "flink-number", "flink-string", "kafka-string"]

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

    Each copy of a trace gets a salt of its own, so that it is spread over the key groups in another way.
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
def groups_of_keys(count: int, groups: int, key_hash: KeyHash = "crc32") -> np.ndarray:
    """Return the groups (count,) of keys 0 .. count - 1; read-only.

    `crc32`: `crc32_group(str(key), groups)`. With a hash of Flink, `groups` is its maximum parallelism, with that
    of Kafka the partitions of the topic.

    Raises InputError for fewer than one group. Results are cached, for tasks and estimates ask for the same ones.

    >>> groups_of_keys(5, 4).tolist() == [crc32_group(str(key), 4) for key in range(5)]
    True
    >>> groups_of_keys(3, 128, "flink-number").tolist()
    [94, 86, 127]
    """
    if groups < 1:
        raise InputError.at("key_groups", groups, "must be at least 1")
    if key_hash == "crc32":
        found = _crc32s(count).astype(np.int64) % groups
    elif key_hash == "flink-number":
        keys = np.arange(count, dtype=np.uint64)  # `Long.hashCode`; that of an `Integer` is the number
        found = _murmur((keys ^ (keys >> np.uint64(32))).astype(np.uint32)) % groups
    elif key_hash == "kafka-string":
        found = (_kafka_hashes(count) & np.uint32(0x7FFFFFFF)).astype(np.int64) % groups
    else:
        found = _murmur(_java_hashes(count)) % groups
    found.setflags(write=False)
    return found


def _crc32s(count: int) -> npt.NDArray[np.uint32]:
    """Return the CRC-32 (count,) of keys 0 .. count - 1 in decimal."""
    table = _crc_table()
    found = np.full(count, 0xFFFFFFFF, np.uint32)
    for keys, characters in _decimals(count):
        found[keys] = table[(found[keys] ^ characters) & 0xFF] ^ (found[keys] >> 8)
    return found ^ np.uint32(0xFFFFFFFF)


def _java_hashes(count: int) -> npt.NDArray[np.uint32]:
    """Return the bits of `String.hashCode` (count,) of keys 0 .. count - 1 in decimal."""
    found = np.zeros(count, np.uint32)
    for keys, characters in _decimals(count):
        found[keys] = found[keys] * np.uint32(31) + characters
    return found


def _kafka_hashes(count: int) -> npt.NDArray[np.uint32]:
    """Return MurmurHash2 (count,), as Kafka seeds it, of the UTF-8 bytes of keys 0 .. count - 1 in decimal."""
    found = np.empty(count, np.uint32)
    for (start, stop), places in groupby(_decimals(count), lambda one: (one[0].start, one[0].stop)):
        characters = [character for _, character in places]
        whole, factor = len(characters) // 4 * 4, np.uint32(0x5BD1E995)
        hashed = np.full(stop - start, 0x9747B28C ^ len(characters), np.uint32)
        for at in range(0, whole, 4):
            word = _little_endian(characters[at : at + 4]) * factor
            hashed = hashed * factor ^ (word ^ (word >> np.uint32(24))) * factor
        if characters[whole:]:
            hashed = (hashed ^ _little_endian(characters[whole:])) * factor
        hashed = (hashed ^ (hashed >> np.uint32(13))) * factor
        found[start:stop] = hashed ^ (hashed >> np.uint32(15))
    return found


def _little_endian(characters: Sequence[npt.NDArray[np.uint32]]) -> npt.NDArray[np.uint32]:
    """Return the words (n,) of four bytes each, or fewer, of which the first is the lowest."""
    words = np.zeros_like(characters[0])
    for place, character in enumerate(characters):
        words |= character << np.uint32(8 * place)
    return words


def _decimals(count: int) -> Iterator[tuple[slice, npt.NDArray[np.uint32]]]:
    """Yield characters of keys 0 .. count - 1, from the first digit to the last, for all keys that have as many."""
    start, digits = 0, 1
    while start < count:
        stop = min(count, 10**digits)
        keys = np.arange(start, stop, dtype=np.int64)
        for place in range(digits - 1, -1, -1):
            yield slice(start, stop), (keys // 10**place % 10 + ord("0")).astype(np.uint32)
        start, digits = stop, digits + 1


def _murmur(hashes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Return what Flink makes of a hash code (n,), at least 0: MurmurHash3 of one word of 32 bits, `MathUtils`."""
    word = _rotated(hashes * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    word = _rotated(word, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    word ^= np.uint32(4)
    word = (word ^ (word >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    word = (word ^ (word >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    signed = (word ^ (word >> np.uint32(16))).view(np.int32).astype(np.int64)
    return np.where(signed == np.iinfo(np.int32).min, 0, np.abs(signed))


def _rotated(words: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
    return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))


@functools.lru_cache(maxsize=1)
def _crc_table() -> np.ndarray:
    """Return the CRC-32 of each byte (RFC 1952, section 8), (256,) uint32."""
    crc = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        crc = np.where(crc & 1, np.uint32(0xEDB88320) ^ (crc >> 1), crc >> 1).astype(np.uint32)
    return crc


@functools.lru_cache(maxsize=64)
def group_shares(
    keys: UniformKeys | ZipfKeys | NexmarkKeys | SellerKeys, groups: int, key_hash: KeyHash = "crc32"
) -> np.ndarray:
    """Return how likely a tuple belongs to each key group, (groups,), sum 1, read-only.

    Key k of a Zipf distribution (k = 0 is the most frequent) has weight 1 / (k + 1)^exponent.

    `keys`: the law of the keys; `groups`: number of key groups. Skew of keys and the hash both make shares uneven. Keys
    of NEXMark change over time: over a long run all key groups have equal shares.
    """
    if isinstance(keys, (NexmarkKeys, SellerKeys)):
        even = np.full(groups, 1 / groups)
        even.setflags(write=False)
        return even
    weights = np.ones(keys.count)
    if isinstance(keys, ZipfKeys):
        weights = np.arange(1, keys.count + 1, dtype=float) ** -keys.exponent
    shares = np.bincount(groups_of_keys(keys.count, groups, key_hash), weights=weights, minlength=groups)
    normed = np.asarray(shares / shares.sum())
    normed.setflags(write=False)
    return normed
