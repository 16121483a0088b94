"""A faster step is the same step."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from reelrl.errors import ConfigError
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.settings import AutoEncoderSettings

SMALL = AutoEncoderSettings(widths=((4, 8), (4, 8), (4, 8)))


@pytest.mark.parametrize("step", ["graph", "compiled-graph"])
def test_a_graph_needs_a_gpu(step: str) -> None:
    with pytest.raises(ConfigError, match="needs a GPU"):
        StreamingAutoEncoder(replace(SMALL, step=step), "cpu")  # type: ignore[arg-type]


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
