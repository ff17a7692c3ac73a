"""The hash from key to key group against the bitwise definition of CRC-32."""

import pytest

from models.errors import InputError
from models.scenario.job import crc32_group


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
