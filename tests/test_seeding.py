from __future__ import annotations

import json
import random
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reelrl import seeding
from reelrl.errors import ConfigError

names = st.lists(st.text(max_size=8) | st.integers(0, 10**6), max_size=3).map(tuple)
seeds = st.integers(0, 2**130)

# What streams gave when they were designed; a change would break the replay of every saved run.
GOLDEN, GOLDEN_SEED = [546, 148, 319, 443], 964757095


def draws(generator: np.random.Generator) -> list[int]:
    return [int(value) for value in generator.integers(0, 2**63, 4)]


@given(seeds, names)
def test_the_same_names_give_the_same_stream(seed: int, path: tuple[str | int, ...]) -> None:
    assert draws(seeding.stream(seed, *path)) == draws(seeding.stream(seed, *path))
    assert 0 <= seeding.seed_for(seed, *path) < 2**31


@given(seeds, names, seeds, names)
def test_other_seeds_or_names_give_other_streams(
    seed: int, path: tuple[str | int, ...], other_seed: int, other_path: tuple[str | int, ...]
) -> None:
    if (seed, path) != (other_seed, other_path):
        assert draws(seeding.stream(seed, *path)) != draws(seeding.stream(other_seed, *other_path))


def test_names_do_not_run_together() -> None:
    paths: list[tuple[str | int, ...]] = [("env", 3), ("env", "3"), ("env3",), ("en", "v3"), (), ("",), ("env", 3, 0)]
    assert len({tuple(draws(seeding.stream(0, *path))) for path in paths}) == len(paths)


def test_streams_stay_the_same_over_versions() -> None:
    assert seeding.stream(7, "env", 3).integers(0, 1000, 4).tolist() == GOLDEN
    assert seeding.seed_for(7, "env", 3) == GOLDEN_SEED


@pytest.mark.parametrize("kind", sorted(seeding._BIT_GENERATORS))
def test_a_restored_generator_continues(kind: str) -> None:
    generator = np.random.Generator(seeding._BIT_GENERATORS[kind](5))
    generator.integers(0, 10, 3, dtype=np.int32)  # leaves half a word behind
    captured = json.loads(json.dumps(seeding.capture(generator)))
    assert draws(seeding.restore(captured)) == draws(generator)


@pytest.mark.parametrize("captured", [{}, {"generator": {"bit_generator": "os.system"}}, {"generator": 3}])
def test_a_state_that_is_none_is_refused(captured: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="no captured generator state"):
        seeding.restore(captured)


@pytest.mark.parametrize("seed", [-1, 1.5, True, "3", None])
def test_a_wrong_seed_is_refused(seed: object) -> None:
    with pytest.raises(ConfigError, match=r"seed is .*give a whole number, 0 or more"):
        seeding.stream(seed)  # type: ignore[arg-type]


def test_hidden_states_are_seeded_and_restored() -> None:
    seeding.seed_globals(3)
    captured = json.loads(json.dumps(seeding.capture_globals()))
    first = (random.random(), np.random.random())  # noqa: NPY002, RUF100
    seeding.restore_globals(captured)
    assert (random.random(), np.random.random()) == first  # noqa: NPY002, RUF100
    seeding.seed_globals(3)
    assert (random.random(), np.random.random()) == first  # noqa: NPY002, RUF100


@pytest.mark.slow
def test_torch_is_seeded_only_where_it_is_imported() -> None:
    program = """
import json, sys
from reelrl import seeding
seeding.seed_globals(3)
assert "torch" not in sys.modules and "torch" not in seeding.capture_globals()
import torch
seeding.seed_globals(3)
state = json.loads(json.dumps(seeding.capture_globals()))
first = torch.rand(3)
seeding.restore_globals(state)
assert torch.equal(first, torch.rand(3))
"""
    pytest.importorskip("torch")
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
