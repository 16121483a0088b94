"""A faster step is the same step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reelrl.errors import ConfigError
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.settings import AutoEncoderSettings, LossSettings

SMALL = AutoEncoderSettings(widths=((4, 8), (4, 8), (4, 8)))
PLACES = replace(SMALL, bounded=True, averages=True, loss=LossSettings(small=5.0))


@pytest.mark.parametrize("step", ["graph", "compiled-graph"])
def test_a_graph_needs_a_gpu(step: str) -> None:
    with pytest.raises(ConfigError, match="needs a GPU"):
        StreamingAutoEncoder(replace(SMALL, step=step), "cpu")  # type: ignore[arg-type]


@pytest.mark.parametrize("settings", [SMALL, PLACES])
def test_half_precision_learns_what_single_precision_learns(settings: AutoEncoderSettings) -> None:
    chance = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (3, 3, 210, 160), dtype=torch.uint8, generator=chance)
    single, half = (StreamingAutoEncoder(replace(settings, precision=each)) for each in ("float32", "bfloat16"))
    for frame in frames:
        assert torch.allclose(single.learn(frame).loss, half.learn(frame).loss, rtol=1e-2)


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # torch.compile warns about its own insides
def test_a_compiled_step_learns_what_an_eager_one_learns() -> None:
    chance = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (6, 3, 210, 160), dtype=torch.uint8, generator=chance)
    eager, compiled = (StreamingAutoEncoder(replace(SMALL, step=step)) for step in ("eager", "compiled"))
    for frame in frames:
        assert torch.allclose(eager.learn(frame).loss, compiled.learn(frame).loss, rtol=1e-4)


@pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU; benchmarks/see_speed.py --curve compares longer"
)
def test_a_graph_learns_what_an_eager_step_learns_from_the_first_frame() -> None:
    chance = torch.Generator().manual_seed(0)
    frames = torch.randint(0, 256, (6, 3, 210, 160), dtype=torch.uint8, generator=chance).cuda()
    eager, graph = (StreamingAutoEncoder(replace(SMALL, step=step), "cuda") for step in ("eager", "graph"))
    for frame in frames:
        assert torch.allclose(eager.learn(frame).loss, graph.learn(frame).loss, rtol=1e-2)
