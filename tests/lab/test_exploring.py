"""Every schedule of tiny jobs: no order of steps without a crash is at fault.

The numbers of schedules are stated where they are small; two sources with two tuples each are explored up to two
deviations from the order of age, since all of their schedules are too many.
"""

from __future__ import annotations

import pytest

from lab.exploring import explore, tiny
from lab.mutants import MUTANTS
from lab.shapes import SHAPES
from sim.migration.protocols import PROTOCOLS as WITH_CHECKPOINTS
from sim.migration.protocols import PROTOCOLS_WITHOUT_CHECKPOINTS

PROTOCOLS = (*WITH_CHECKPOINTS, *PROTOCOLS_WITHOUT_CHECKPOINTS)

every_protocol = pytest.mark.parametrize("protocol", PROTOCOLS)
every_shape = pytest.mark.parametrize("shape", SHAPES)
BROKEN = {mutant.name: mutant for mutant in MUTANTS}


def others_later(*now: str) -> pytest.MarkDecorator:
    """Every protocol, but for these in the slow campaign."""
    rest = [pytest.param(name, marks=pytest.mark.slow) for name in PROTOCOLS if name not in now]
    return pytest.mark.parametrize("protocol", [*now, *rest])


@others_later("cpa", "cpal")
def test_all_schedules_of_one_source_with_one_tuple(protocol: str) -> None:
    found = explore(tiny(protocol, sources=1, tuples=1))
    assert found.complete
    assert found.faults == []
    assert found.schedules > 50


@pytest.mark.slow
@pytest.mark.parametrize(("protocol", "schedules"), [("cpa", 16_052)])
def test_all_schedules_of_one_source_with_two_tuples(protocol: str, schedules: int) -> None:
    found = explore(tiny(protocol, sources=1, tuples=2))
    assert found.complete
    assert found.faults == []
    assert found.schedules == schedules


@others_later()
def test_two_sources_with_two_tuples_up_to_two_deviations(protocol: str) -> None:
    found = explore(tiny(protocol, sources=2, tuples=2), prune=False, deviations=2)
    assert found.complete
    assert found.faults == []
    assert found.schedules > 900
    assert len(found.ends) > 5


def test_two_sources_with_two_tuples_up_to_one_deviation() -> None:
    found = explore(tiny("direct", sources=2, tuples=2), prune=False, deviations=1)
    assert found.complete
    assert found.faults == []
    assert len(found.ends) > 5


@pytest.mark.parametrize(
    ("protocol", "shape"),
    [
        pytest.param(protocol, shape, marks=() if (row + column) % 2 == 0 else pytest.mark.slow)
        for row, protocol in enumerate(PROTOCOLS)
        for column, shape in enumerate(SHAPES)
    ],
)
def test_other_shapes_up_to_one_deviation(protocol: str, shape: str) -> None:
    found = explore(tiny(protocol, sources=1, tuples=1, shape=shape), prune=False, deviations=1)
    assert found.complete
    assert found.faults == []
    assert found.schedules >= 15


@pytest.mark.slow
@every_shape
@every_protocol
def test_other_shapes_up_to_two_deviations(protocol: str, shape: str) -> None:
    found = explore(tiny(protocol, sources=1, tuples=1, shape=shape), prune=False, deviations=2)
    assert found.complete
    assert found.faults == []


@pytest.mark.slow
@every_protocol
def test_many_schedules_of_one_source_with_two_tuples(protocol: str) -> None:
    assert explore(tiny(protocol, sources=1, tuples=2), most=300_000).faults == []


@pytest.mark.slow
@every_protocol
def test_many_schedules_of_one_source_with_two_tuples_and_a_checkpoint(protocol: str) -> None:
    found = explore(tiny(protocol, sources=1, tuples=2, meanwhile=True), most=300_000)
    assert found.faults == []


@pytest.mark.slow
@every_protocol
def test_many_schedules_of_two_sources_with_a_tuple(protocol: str) -> None:
    found = explore(tiny(protocol, sources=2, tuples=1), most=300_000)
    assert found.faults == []


@pytest.mark.parametrize("protocol", ["cpa", pytest.param("cpal", marks=pytest.mark.slow)])
def test_what_is_left_out_ends_like_something_that_is_not(protocol: str) -> None:
    pruned, everything = (explore(tiny(protocol, sources=1, tuples=1), prune=prune) for prune in (True, False))
    assert pruned.complete
    assert everything.complete
    assert pruned.ends == everything.ends
    assert 2 * pruned.schedules < everything.schedules


@pytest.mark.parametrize("title", ["to_state without the buffer", "never unmuted", "redirect instead of duplicate"])
def test_a_mutant_is_noticed_in_a_tiny_job(title: str) -> None:
    mutant = BROKEN[title]
    assert explore(tiny(mutant.protocol, sources=1, tuples=2), tamper=mutant.tamper).faults
