import pytest

from forester.pipeline_v2.staging.batch_inputs import Alignment, align_batch


@pytest.mark.parametrize(
    ("next_index", "start", "offset", "alignment"),
    [
        (10, 11, 0, Alignment.STALE),
        (10, 0, 0, Alignment.SKIP),
        (10, 0, 8, Alignment.SKIP),
        (10, 0, 10, Alignment.PROCESS),
        (10, 0, 12, Alignment.GAP),
    ],
)
def test_alignment__published_vectors__are_met(next_index: int, start: int, offset: int, alignment: Alignment) -> None:
    assert align_batch(next_index, start, offset) is alignment
