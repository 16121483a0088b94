"""The streaming simulators on a GPU: held against the scalar rule, how fast they step, how fast the policy decides,
all on generated links.

python benchmarks/stream_gpu.py                           needs torch, numpy, safetensors and this checkout
python benchmarks/stream_gpu.py --players 4096 --eager    small, for a CPU

Training is `reel train abr --config abr-gpu` and `--config abr-scalefree-gpu`.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

ROOT = Path(__file__).resolve().parent.parent
if importlib.util.find_spec("gymnasium") is None or importlib.util.find_spec("reelrl") is None:
    # `import reelrl` registers environments with gymnasium; without it the submodules used here still work.
    package = types.ModuleType("reelrl")
    package.__path__ = [str(ROOT / "src" / "reelrl")]
    sys.modules["reelrl"] = package

from reelrl.stream.controllers.weights import SCALE_FREE  # noqa: E402
from reelrl.stream.data.ladders import Ladder, nominal_ladder  # noqa: E402
from reelrl.stream.data.pools import training_pool  # noqa: E402
from reelrl.stream.scalefree.controller import load_scale_free  # noqa: E402
from reelrl.stream.scalefree.players import DRAWS, MixedPlayers  # noqa: E402
from reelrl.stream.scalefree.random_videos import random_videos, videos_on  # noqa: E402
from reelrl.stream.simulator.environment import Environment  # noqa: E402
from reelrl.stream.simulator.rule import named_rule  # noqa: E402
from reelrl.stream.simulator.torch_env import TorchAbr  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.stream.data.traces import Trace

ROUNDS = 5


def check(links: list[Trace], ladder: Ladder, device: str) -> None:
    """Step by step against the scalar rule, for both presets."""
    for preset in ("pensieve", None):
        batch = TorchAbr(links, ladder, len(links), device=device, preset=preset, noise=False, random_start=False)
        judges = [Environment(t, ladder, rule=named_rule(preset, noise=False)) for t in links]
        batch.reset(traces=torch.arange(len(links), device=device))
        for judge in judges:
            judge.get_video_chunk(1)
        worst = 0.0
        actions = np.random.default_rng(0).integers(0, 6, (batch.video.chunks - 1, len(links)))
        for row in actions:
            _, _, _, infos = batch.step(torch.as_tensor(row, device=device))
            got = [judge.get_video_chunk(int(a)) for judge, a in zip(judges, row, strict=True)]
            for name, index, scale in (("delay_ms", 0, 1.0), ("buffer_s", 2, 1e3), ("rebuffer_s", 3, 1e3)):
                expected = np.array([chunk[index] for chunk in got])
                worst = max(worst, float(np.abs(infos[name].cpu().numpy() - expected).max()) * scale)
        print(f"check  {preset or 'default':<9} {actions.size} steps   largest difference {worst:.2e} ms", flush=True)


def one_ladder(links: list[Trace], ladder: Ladder, device: str, players: int, compiled: bool) -> None:
    """Pensieve's state and ladder."""
    env = TorchAbr(links, ladder, players, device=device, preset="pensieve", compiled=compiled)
    env.reset()
    actions = torch.randint(6, (8, players), device=device)
    # One whole episode, its restart included.
    show("one ladder, with state", compiled, players, 47, device, lambda k: env.step(actions[k % 8]))


def any_ladder(links: list[Trace], device: str, players: int, compiled: bool) -> None:
    """Players who all differ: the rule alone, with what the policy sees, and what the shipped policy decides."""
    videos = videos_on(device, *random_videos(np.random.default_rng(0), 4096))
    everyone = MixedPlayers(links, videos, players, device, 0, compiled=compiled)
    everyone.reset()
    policy = load_scale_free(SCALE_FREE)[0].to(device).requires_grad_(requires_grad=False)
    draws, noise = everyone._uniform(DRAWS), everyone._uniform(2)
    actions = (everyone._uniform(1)[:, 0] * videos.present[everyone.state.video].sum(1)).long()

    def rule(_: int) -> None:
        everyone.state = everyone._forward(everyone.state, actions, draws, noise)[0]

    def choice() -> torch.Tensor:
        return policy.logits(everyone.observe(everyone.state)[0]).argmax(1)

    choose = torch.compile(choice, dynamic=False) if compiled else choice
    show("any ladder, the rule", compiled, players, 40, device, rule)
    show("any ladder, with features", compiled, players, 40, device, lambda _: everyone.step(actions))
    show("any ladder, decisions", compiled, players, 10, device, lambda _: choose())


def show(name: str, compiled: bool, players: int, steps: int, device: str, step: Callable[[int], object]) -> None:
    """The best of several rounds; the first, which compiles, does not count."""
    best = 0.0
    for turn in range(ROUNDS + 1):
        _sync(device)
        start = time.perf_counter()
        for k in range(steps if turn else 1):
            step(k)
        _sync(device)
        best = max(best, players * steps / (time.perf_counter() - start) if turn else 0.0)
    print(f"speed  {name:<26} {'compiled' if compiled else 'eager':<9} {players} players   {best:.3e} /s", flush=True)


def _sync(device: str) -> None:
    if device != "cpu":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--links", type=int, default=2000)
    parser.add_argument("--players", type=int, default=2**20)
    parser.add_argument("--eager", action="store_true", help="do not compile")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"device {name}   torch {torch.__version__}   python {sys.version.split()[0]}", flush=True)
    torch.set_float32_matmul_precision("high")
    links, ladder = training_pool(0, args.links), nominal_ladder()
    check(links[:: max(1, len(links) // 100)], ladder, device)
    for compiled in (False,) if args.eager else (False, True):
        one_ladder(links, ladder, device, args.players, compiled)
        any_ladder(links, device, args.players, compiled)


if __name__ == "__main__":
    main()
