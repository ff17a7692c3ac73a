"""Key groups against plain definitions: CRC-32 bit by bit, and what Flink's classes were seen to return."""

import pytest

from models.errors import InputError
from models.scenario.job import Operator
from models.scenario.key_groups import KeyHash, crc32_group, groups_of_keys


def bitwise_crc32(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


@pytest.mark.parametrize("key", ["", "N14228", "Zürich", "鍵", "a" * 5000, "line\nbreak", '"', "\U0001f6eb"])
@pytest.mark.parametrize("groups", [1, 2, 7, 32, 32768])
def test_group_is_the_bitwise_crc_of_the_utf8_bytes_modulo_the_groups(key: str, groups: int) -> None:
    assert crc32_group(key, groups) == bitwise_crc32(key.encode()) % groups


def test_known_check_value_of_the_crc() -> None:
    assert crc32_group("123456789", 2**32) == 0xCBF43926


@pytest.mark.parametrize("groups", [0, -1])
def test_no_groups_is_bad_input(groups: int) -> None:
    with pytest.raises(InputError, match=r"key_groups = .*at least 1"):
        crc32_group("a", groups)


WORD = 2**32


def murmur(hash_code: int) -> int:
    """`MathUtils.murmurHash` of Flink, with Python's integers."""
    k = hash_code * 0xCC9E2D51 % WORD
    k = ((k << 15) | (k >> 17)) % WORD * 0x1B873593 % WORD
    k = ((k << 13) | (k >> 19)) % WORD * 5 + 0xE6546B64
    k = (k ^ 4) % WORD
    k = (k ^ (k >> 16)) * 0x85EBCA6B % WORD
    k = (k ^ (k >> 13)) * 0xC2B2AE35 % WORD
    k ^= k >> 16
    signed = k - WORD if k >= WORD // 2 else k
    return 0 if signed == -WORD // 2 else abs(signed)


def string_hash(text: str) -> int:
    """`String.hashCode` of Java."""
    found = 0
    for character in text:
        found = (31 * found + ord(character)) % WORD
    return found


# Hash codes, and what `KeyGroupRangeAssignment` of Flink 2.3 returned for them.
SEEN = {
    0: (593689054, 94),
    1: (68075478, 86),
    2: (1085422463, 127),
    42: (1134849565, 29),
    1000: (3506311, 7),
    string_hash("a"): (1455541201, 81),
    string_hash("key-1"): (23124534, 54),
    string_hash("holdfast"): (1274787744, 32),
    7: (1343918321, 113),
    705032705: (742106492, 124),  # of the Long 5000000000
}


def test_the_plain_hash_is_what_flink_was_seen_to_return() -> None:
    assert {code: (murmur(code), murmur(code) % 128) for code in SEEN} == SEEN


@pytest.mark.parametrize("groups", [1, 128, 720])
def test_groups_of_numbers_and_of_strings_equal_the_plain_hash(groups: int) -> None:
    keys = range(12_345)
    assert groups_of_keys(len(keys), groups, "flink-number").tolist() == [murmur(key) % groups for key in keys]
    strings = [murmur(string_hash(str(key))) % groups for key in keys]
    assert groups_of_keys(len(keys), groups, "flink-string").tolist() == strings


def test_the_hashes_are_not_each_other() -> None:
    hashes: tuple[KeyHash, ...] = ("crc32", "flink-number", "flink-string")
    assert len({groups_of_keys(100, 128, one).tobytes() for one in hashes}) == 3


# `computeKeyGroupRangeForOperatorIndex`: task i has ceil(i x max / p) .. floor(((i + 1) x max - 1) / p).
@pytest.mark.parametrize(("groups", "tasks"), [(128, 3), (128, 24), (720, 24), (7, 7), (10, 4), (5, 1)])
def test_ranges_are_those_of_flink(groups: int, tasks: int) -> None:
    operator = Operator.model_validate(
        {"kind": "aggregate", "inputs": {"a": "key"}, "key_groups": groups, "key_group_assignment": "ranges"}
    )
    ranges = [range(-(-k * groups // tasks), ((k + 1) * groups - 1) // tasks + 1) for k in range(tasks)]
    assert [[g for g in range(groups) if operator.task_of(g, tasks) == k] for k in range(tasks)] == [*map(list, ranges)]


# -- Kafka


def kafka_murmur(data: bytes) -> int:
    """MurmurHash2 with the seed of Kafka, with Python's integers: the bits of its signed result."""
    factor, found = 0x5BD1E995, 0x9747B28C ^ len(data)
    words = [int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data), 4)]
    rest = words.pop() if len(data) % 4 else None
    for word in words:
        mixed = word * factor % WORD
        found = (found * factor % WORD) ^ ((mixed ^ mixed >> 24) * factor % WORD)
    if rest is not None:
        found = (found ^ rest) * factor % WORD
    found = (found ^ found >> 13) * factor % WORD
    return found ^ found >> 15


# Keys, and what Kafka's own test of its hash asks for them.
OF_KAFKA = {
    "21": -973932308,
    "abc": 479470107,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
}


@pytest.mark.parametrize("key", OF_KAFKA)
def test_the_hash_of_kafka_is_the_known_one(key: str) -> None:
    assert kafka_murmur(key.encode()) == OF_KAFKA[key] % WORD


@pytest.mark.parametrize("partitions", [1, 6, 24, 1000])
def test_partitions_are_those_of_the_partitioner_of_kafka(partitions: int) -> None:
    count = 100_011
    found = groups_of_keys(count, partitions, "kafka-string")
    tried = [*range(1200), *range(9_990, 10_010), *range(99_990, count)]
    assert [int(found[key]) for key in tried] == [
        (kafka_murmur(str(key).encode()) & 0x7FFFFFFF) % partitions for key in tried
    ]
