"""Learned frames per second at 224x224, one frame per update, and whether the fast ways learn the same.

    python benchmarks/see_speed.py                        # CPU, one thread
    python benchmarks/see_speed.py --device cuda
    python benchmarks/see_speed.py --device cuda --learners 1,8,24,48     # side by side, each its own frame

"plain" is the loop one would write first: the same network, an 11x11 Gaussian SSIM, PyTorch's loop over parameters, and
figures read back after every frame. All ways take turns, and each one's best round counts. Curves: the mean loss over
the last third of `--curve` frames, against eager float32.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional

from reelrl.see.frames.source import to_input
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.many_learners import ManyLearners
from reelrl.see.settings import FRAME_SIZE, AutoEncoderSettings

if TYPE_CHECKING:
    from collections.abc import Callable

TOLERANCE = 0.05
"""How far the mean loss of a fast way may be from eager float32's: rounding makes curves drift apart, not away."""
WAYS = {
    "cpu": (("eager", "float32"), ("compiled", "float32")),
    "cuda": (
        ("eager", "float32"),
        ("graph", "float32"),
        ("compiled-graph", "float32"),
        ("graph", "bfloat16"),
        ("compiled-graph", "bfloat16"),
    ),
}
WARM_UP = 6  # steps in which kernels are chosen, compiled and recorded


def game(frames: int, device: str) -> list[Tensor]:
    """Eight coloured squares that bounce over a patterned field, uint8 [3, 210, 160] each."""
    chance = torch.Generator().manual_seed(0)
    field = torch.randint(0, 80, (3, 30, 20), generator=chance).repeat_interleave(7, 1).repeat_interleave(8, 2)
    speed = torch.randint(1, 6, (8, 2), generator=chance)
    colours = torch.randint(100, 256, (8, 3), generator=chance)
    pictures = []
    for i in range(frames):
        picture = field.clone().to(torch.uint8)
        for (down, right), colour in zip(speed.tolist(), colours, strict=True):
            y, x = bounce(i * down, 198), bounce(i * right, 148)
            picture[:, y : y + 12, x : x + 12] = colour.to(torch.uint8)[:, None, None]
        pictures.append(picture.to(device))
    return pictures


def bounce(distance: int, room: int) -> int:
    return room - abs(distance % (2 * room) - room)


class Plain:
    """The same network and loss, without any care for speed."""

    def __init__(self, settings: AutoEncoderSettings, device: str) -> None:
        self.model = StreamingAutoEncoder(replace(settings, step="eager"), device)
        chosen = settings.optimiser
        betas = (chosen.beta1, chosen.size_memory)
        self.optimiser = torch.optim.Adam(self.model.parameters(), chosen.rate, betas, foreach=False)
        line = torch.exp(-((torch.arange(11.0) - 5) ** 2) / (2 * 1.5**2))
        window = torch.outer(line, line)
        self.window = (window / window.sum()).expand(3, 1, 11, 11).contiguous().to(device)

    def learn(self, raw: Tensor) -> float:
        model, weights = self.model, self.model.settings.loss
        frame = to_input(raw)
        mask = model.detector(frame)
        in_front = ((frame - model.background.mean).abs().amax(dim=1, keepdim=True) > 0.1).float()
        picture = model.decoder(model.encode(frame), model.background.mean)
        error = (picture - frame) * (1 + weights.change * mask + weights.foreground * in_front).sqrt()
        loss = weights.mse * error.square().mean() + weights.l1 * error.abs().mean()
        loss = loss + weights.ssim * (1 - self.ssim(picture, frame))
        self.optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.optimiser.step()
        model.background.update(frame)
        return float(loss.item() + (picture - frame).square().mean().item())

    def ssim(self, a: Tensor, b: Tensor) -> Tensor:
        def blur(x: Tensor) -> Tensor:
            return functional.conv2d(x, self.window, groups=3)

        mean_a, mean_b = blur(a), blur(b)
        variance_a, variance_b = blur(a * a) - mean_a**2, blur(b * b) - mean_b**2
        covariance = blur(a * b) - mean_a * mean_b
        top = (2 * mean_a * mean_b + 1e-4) * (2 * covariance + 9e-4)
        return (top / ((mean_a**2 + mean_b**2 + 1e-4) * (variance_a + variance_b + 9e-4))).mean()


def seconds_per_frame(learn: Callable[[Tensor], object], frames: list[Tensor], device: str) -> float:
    """CPU time of this process on a CPU, so that neighbours do not count; the clock on a GPU."""
    clock = time.perf_counter if device == "cuda" else time.process_time
    start = clock()
    for frame in frames:
        learn(frame)
    if device == "cuda":
        torch.cuda.synchronize()
    return (clock() - start) / len(frames)


def curve(settings: AutoEncoderSettings, frames: list[Tensor], device: str) -> Tensor:
    model = StreamingAutoEncoder(settings, device)
    return torch.stack([model.learn(frame).loss.clone() for frame in frames]).cpu()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=sorted(WAYS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--frames", type=int, help="frames per round (default 10 on a CPU, 300 on a GPU)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--learners", metavar="N,N", help="only how many frames so many learn together in a second")
    parser.add_argument("--curve", type=int, default=0, metavar="N", help="compare learning curves over N frames")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.learners:
        for count in args.learners.split(","):
            side_by_side(int(count), args.frames or 40, args.device)
        return
    frames = game(args.frames or (300 if args.device == "cuda" else 10), args.device)

    settings = AutoEncoderSettings()
    learners: dict[str, Callable[[Tensor], object]] = {"plain": Plain(settings, args.device).learn}
    for step, precision in WAYS[args.device]:
        chosen = replace(settings, step=step, precision=precision)  # type: ignore[arg-type]
        learners[f"{step} {precision}"] = StreamingAutoEncoder(chosen, args.device).learn
    best = dict.fromkeys(learners, float("inf"))
    for name, learn in learners.items():
        start = time.perf_counter()
        seconds_per_frame(learn, frames[:5], args.device)
        print(f"start  {name:24s} {time.perf_counter() - start:6.1f} s", flush=True)
    for _ in range(args.rounds):
        for name, learn in learners.items():
            best[name] = min(best[name], seconds_per_frame(learn, frames, args.device))
    print(f"\n{'':31s} frames/s    ms   x plain   ({args.device}, {args.threads} threads, torch {torch.__version__})")
    for name, each in best.items():
        print(f"speed  {name:24s} {1 / each:8.1f} {1000 * each:6.2f} {best['plain'] / each:7.2f}", flush=True)
    if args.curve:
        compare_curves(settings, args.curve, args.device)


def side_by_side(count: int, frames: int, device: str) -> None:
    for step, precision in WAYS[device]:
        many = ManyLearners(
            [replace(AutoEncoderSettings(), seed=seed, step=step, precision=precision) for seed in range(count)],  # type: ignore[arg-type]
            device,
        )
        shown = torch.rand(count, 3, FRAME_SIZE, FRAME_SIZE, device=device)
        several = partial(seconds_per_frame, many.learn, device=device)
        several(frames=[shown] * WARM_UP)
        seconds = several(frames=[shown] * frames)
        print(f"{count:3d} learners  {step:15s} {precision}  {count / seconds:8.1f} frames/s", flush=True)


def compare_curves(settings: AutoEncoderSettings, count: int, device: str) -> None:
    frames = game(count, device)
    last = slice(-count // 3, None)
    reference = curve(replace(settings, step="eager"), frames, device)
    print(f"\ncurve  eager float32            loss {reference[:10].mean():.5f} -> {reference[last].mean():.5f}")
    worst = 0.0
    for step, precision in WAYS[device][1:]:
        chosen = replace(settings, step=step, precision=precision)  # type: ignore[arg-type]
        found = curve(chosen, frames, device)
        start, end = found[:10].mean(), found[last].mean()
        apart = float(end / reference[last].mean() - 1)
        print(f"curve  {step + ' ' + precision:24s} loss {start:.5f} -> {end:.5f}  {apart:+.2%}")
        worst = max(worst, abs(apart))
    assert worst < TOLERANCE, f"a fast way learns another curve: {worst:.1%} apart"


if __name__ == "__main__":
    main()
