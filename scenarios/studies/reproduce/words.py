"""Words of a text as the input of a job: how many fall on each key group, second by second."""

from __future__ import annotations

import gzip
import re
from functools import lru_cache
from importlib import resources

import numpy as np

from models.scenario.inputs import RateSeries
from models.scenario.key_groups import crc32_group

_FILE = "shakespeare_words.txt.gz"
_WORD = re.compile(r"[a-z']+")


@lru_cache
def words() -> tuple[str, ...]:
    """Return the words of the bundled text in order, in lower case."""
    content = (resources.files("scenarios") / "data" / _FILE).read_bytes()
    return tuple(_WORD.findall(gzip.decompress(content).decode("utf-8").lower()))


@lru_cache
def groups_of_words(groups: int) -> np.ndarray:
    """Return the key group of each word (n,)."""
    return np.array([crc32_group(word, groups) for word in words()])


def text_series(rate: int, seconds: int, groups: int) -> RateSeries:
    """Return the text, read from its begin and again when it ends: `rate` words each second, by key group."""
    found = groups_of_words(groups)
    read = found[np.arange(rate * seconds) % found.size].reshape(seconds, rate)
    weights = np.stack([np.bincount(second, minlength=groups) for second in read], axis=1).astype(float)
    return RateSeries(np.arange(seconds + 1.0), np.full(seconds, float(rate)), weights)


def even_series(rate: int, seconds: int, groups: int) -> RateSeries:
    """Return the same rate, spread evenly over the key groups."""
    weights = np.full((groups, seconds), rate / groups)
    return RateSeries(np.arange(seconds + 1.0), np.full(seconds, float(rate)), weights)
