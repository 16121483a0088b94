from __future__ import annotations

import lzma
import struct
import zlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from reelrl.errors import ConfigError, ContentError
from reelrl.see.embeddings import range_coder
from reelrl.see.embeddings.file import (
    Quantiser,
    decode_embeddings,
    encode_embeddings,
    read_embeddings,
    write_embeddings,
)

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

PREDICTORS = (range_coder.NOTHING, range_coder.NEIGHBOURS, range_coder.LAST_FRAME)
whole_numbers = st.one_of(st.integers(-3, 3), st.integers(-300, 300), st.integers(-(2**18), 2**18))


@st.composite
def grids(draw: st.DrawFn) -> tuple[NDArray[np.int64], list[tuple[int, int]], list[int]]:
    """Frames of a few planes of any size, and a predictor for each plane."""
    planes = draw(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=4))
    numbers = sum(height * width for height, width in planes)
    frames = draw(arrays.arrays(np.int64, (draw(st.integers(0, 4)), numbers), elements=whole_numbers))
    predictors = draw(st.lists(st.sampled_from(PREDICTORS), min_size=len(planes), max_size=len(planes)))
    return frames, planes, predictors


@pytest.mark.slow
@given(grids())
@settings(deadline=None)
def test_any_numbers_come_back(case: Any) -> None:
    frames, planes, predictors = case
    coded = range_coder.encode(frames, planes, predictors)
    np.testing.assert_array_equal(range_coder.decode(coded, len(frames), planes, predictors), frames)


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_decoding_any_bytes_ends(data: bytes) -> None:
    assert range_coder.decode(data, 2, [(5, 5), (3, 4)], [1, 2]).shape == (2, 37)


def embeddings(frames: int = 6, seed: int = 0) -> list[NDArray[np.float32]]:
    """Noise that is smooth from row to row, in the shapes of the model."""
    rng = np.random.default_rng(seed)
    branches = []
    for shape in ((3, 27, 27), (2, 25, 25), (2, 23, 23)):
        values = rng.normal(size=(frames, *shape))
        values[:, :, 1:] += 0.8 * values[:, :, :-1]
        branches.append(values.astype(np.float32))
    return branches


EVEN = Quantiser((0.0,) * 7, (0.5,) * 7)


@given(st.floats(0.05, 4), st.floats(-3, 3), st.booleans())
@settings(deadline=None, max_examples=20)
def test_what_is_read_is_what_was_quantised_and_near_what_was_written(
    step: float, centre: float, from_last_frame: bool
) -> None:
    quantiser, written = Quantiser((centre,) * 7, (step,) * 7), embeddings(2)
    read = decode_embeddings(encode_embeddings(written, quantiser, from_last_frame=from_last_frame))
    for back, exact, before in zip(read, quantiser.values(quantiser.numbers(written)), written, strict=True):
        np.testing.assert_array_equal(back, exact)
        assert np.abs(back - before).max() <= 0.5 * quantiser.steps[0] * (1 + 1e-5)


def test_a_file_holds_the_embeddings_in_the_bytes_it_is_said_to_have(tmp_path: Path) -> None:
    path = tmp_path / "seen.emb"
    assert write_embeddings(path, embeddings(), EVEN) == path.stat().st_size
    for back, exact in zip(read_embeddings(path), EVEN.values(EVEN.numbers(embeddings())), strict=True):
        np.testing.assert_array_equal(back, exact)


def test_the_coder_beats_lzma_and_stays_near_the_entropy() -> None:
    numbers = np.concatenate([branch.ravel() for branch in EVEN.numbers(embeddings(20))])
    _, counts = np.unique(numbers, return_counts=True)
    shares = counts / counts.sum()
    entropy_bytes = -(shares * np.log2(shares)).sum() * numbers.size / 8
    size = len(encode_embeddings(embeddings(20), EVEN))
    assert size < len(lzma.compress(numbers.astype(np.int8).tobytes()))
    assert size < 1.02 * entropy_bytes


def test_a_still_scene_costs_almost_nothing_when_told_by_differences() -> None:
    still = [np.repeat(branch[:1], 50, axis=0) for branch in embeddings(1)]
    alone = len(encode_embeddings([branch[:1] for branch in still], EVEN))
    assert len(encode_embeddings(still, EVEN, from_last_frame=True)) < alone + 50 * 20
    assert len(encode_embeddings(still, EVEN)) > 30 * alone


def test_steps_spend_bits_where_noise_hurts() -> None:
    fitted = Quantiser.fit(embeddings(), [1, 1, 4, 1, 1, 1, 0], scale=0.1)
    assert fitted.steps[2] == pytest.approx(fitted.steps[0] / 2, rel=1e-2)
    assert fitted.steps[3] / fitted.steps[0] == pytest.approx(25 / 27, rel=1e-2)
    silent = decode_embeddings(encode_embeddings(embeddings(), fitted))[2][:, 1]
    assert np.unique(silent).size == 1, "a channel that nobody looks at is told as its centre"


@pytest.mark.parametrize("length", [0, 3, 10, 40, 200])
def test_a_truncated_file_is_refused(length: int, tmp_path: Path) -> None:
    path = tmp_path / "cut.emb"
    path.write_bytes(encode_embeddings(embeddings(1), EVEN)[:length])
    with pytest.raises(ContentError, match=r"cut\.emb"):
        read_embeddings(path)


@given(place=st.integers(0, 10_000), flip=st.integers(1, 255))
@settings(deadline=None, max_examples=60)
def test_a_changed_byte_anywhere_is_noticed(place: int, flip: int) -> None:
    data = bytearray(encode_embeddings(embeddings(1), EVEN))
    data[place % len(data)] ^= flip
    with pytest.raises(ContentError):
        decode_embeddings(bytes(data))


def test_bytes_behind_the_end_are_noticed() -> None:
    with pytest.raises(ContentError, match="damaged"):
        decode_embeddings(encode_embeddings(embeddings(1), EVEN) + b"x")


def test_a_header_that_asks_for_all_memory_is_refused() -> None:
    data = bytearray(encode_embeddings(embeddings(1), EVEN))
    data[6:10] = struct.pack("<I", 2**32 - 1)
    data[14:18] = bytes(4)
    data[14:18] = struct.pack("<I", zlib.crc32(bytes(data)))
    with pytest.raises(ContentError, match="4294967295 frames"):
        decode_embeddings(bytes(data))


def test_another_version_says_so() -> None:
    data = bytearray(encode_embeddings(embeddings(1), EVEN))
    data[4] = 9
    with pytest.raises(ContentError, match="version 9"):
        decode_embeddings(bytes(data))


def test_what_cannot_be_told_is_refused() -> None:
    broken = embeddings(1)
    broken[1][0, 0, 0, 0] = np.nan
    with pytest.raises(ConfigError, match="not finite"):
        encode_embeddings(broken, EVEN)
    with pytest.raises(ConfigError, match="too fine"):
        encode_embeddings(embeddings(1), Quantiser((0.0,) * 7, (1e-6,) * 7))
    with pytest.raises(ConfigError, match="7 channels, the quantiser 6"):
        encode_embeddings(embeddings(1), Quantiser((0.0,) * 6, (1.0,) * 6))
    with pytest.raises(ConfigError, match="steps above 0"):
        Quantiser((0.0,), (0.0,))
    with pytest.raises(ConfigError, match="shapes"):
        encode_embeddings([*embeddings(1)[:2], embeddings(2)[2]], EVEN)
