"""What a race costs beside the learning: host time per frame of all games, with learners that do nothing.

    python benchmarks/see_race.py                         # CPU, one thread
    python benchmarks/see_race.py --device cuda           # what the host must do while the device learns
    python benchmarks/see_race.py --device cuda --learn   # whole steps per second, learners included

"frame by frame" is the loop one would write first: read a picture of each game, upload it, resize it, step, update the
guesses; score where a window is open. "blocks" is the race as it is. Both take turns over the same frames, and each
one's best round counts: outside of windows, where a race spends five sixths of its frames, and inside.

On a GPU the host is what limits: every tensor operation costs it some microseconds, whatever its size. So operations
per frame are counted too; they are the same on every machine.
"""

from __future__ import annotations

import argparse
import time
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from reelrl.content.feeds.process import FeedProcess
from reelrl.see.frames.source import GAMES, to_input
from reelrl.see.measures.baselines import StreamBaselines, through_small
from reelrl.see.measures.scores import Scores
from reelrl.see.measures.trained import background_of
from reelrl.see.race import one_pass as autoencoder_pass
from reelrl.see.race.contestants import contestants
from reelrl.see.race.one_pass import NAMES, Pass
from reelrl.see.result import LearnResult
from reelrl.see.settings import FRAME_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from reelrl.see.execution import Step


def idle_step(learners: int, device: str) -> Step:
    """As a recorded step: the frames are copied to where they lie, the pictures lie where they always do."""
    places = [torch.zeros(3, FRAME_SIZE, FRAME_SIZE, device=device) for _ in range(learners)]
    nothing = torch.zeros((), device=device)
    mask = torch.zeros(1, 1, FRAME_SIZE, FRAME_SIZE, device=device)

    def result(place: Tensor) -> LearnResult:
        figures = dict.fromkeys(
            ("loss", "mse", "l1", "ssim", "gradient_norm", "foreground_mse", "foreground_share"), nothing
        )
        pictures = {"reconstruction": place[None], "frame": place[None], "change_mask": mask}
        return LearnResult(**figures, **pictures, embeddings=(mask, mask, mask))

    results = [result(place) for place in places]

    def step(frames: Sequence[Tensor], resets: Sequence[bool]) -> list[LearnResult]:  # noqa: ARG001
        torch._foreach_copy_(places, list(frames))
        return results

    return step


def frame_by_frame(sources: Sequence[str], device: str, scored: bool, step: Step, frames: int) -> float:
    """Seconds per frame of the plain loop."""
    baselines = {source: StreamBaselines(FRAME_SIZE).to(device) for source in sources}
    backgrounds = {source: background_of(source).to(device) for source in sources}
    scores = {source: Scores(len(NAMES) + 1, device) for source in sources}
    with ExitStack() as stack:
        feeds = {source: stack.enter_context(FeedProcess(source)) for source in sources}
        start = 0.0
        for number in range(frames + 1):
            if number == 1:  # the feeds have started
                start = now(device)
            shots = {source: feed.read() for source, feed in feeds.items()}
            seen = {
                source: to_input(torch.from_numpy(shot.picture).to(device).permute(2, 0, 1))
                for source, shot in shots.items()
                if shot
            }
            outcomes = step([frame[0] for frame in seen.values()], [bool(shot and shot.cut) for shot in shots.values()])
            for (source, frame), outcome in zip(seen.items(), outcomes, strict=True):
                mean, last = baselines[source].observe(frame)
                if scored:
                    pictures = [mean, last, through_small(frame), outcome.reconstruction]
                    scores[source].add(pictures, frame, backgrounds[source], last)
        return (now(device) - start) / frames


def in_blocks(sources: Sequence[str], device: str, scored: bool, step: Step | None, frames: int) -> float:
    """Seconds per frame of a race's pass; all frames lie in a window, or none does."""
    edge = autoencoder_pass.BLOCK
    one = Pass(contestants(["default"], sources, 1), frames + edge, device=device)
    one._step = step or one._step
    one._open = {frames + edge: one._scores()} if scored else {}
    # A window is a tenth of the frames before a mark; here it is all of them.
    autoencoder_pass.window_start = lambda mark: mark - frames  # type: ignore[attr-defined]
    with closing(one.learn()) as blocks:
        next(blocks)
        start = now(device)
        for _ in blocks:
            pass
        return (now(device) - start) / frames


class Counted(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the tensor operations that this thread asks for."""

    count = 0

    def __torch_dispatch__(
        self, func: Callable[..., object], types: object, args: tuple[object, ...] = (), kwargs: Any = None
    ) -> object:
        self.count += 1
        return func(*args, **(kwargs or {}))


def operations(way: Callable[[int], float], few: int) -> float:
    """Per frame: what more frames ask for, over how many more they are."""
    counts: list[int] = []
    for frames in (few, 2 * few):
        with Counted() as counted:  # type: ignore[no-untyped-call]
            way(frames)
        counts.append(counted.count)
    return (counts[1] - counts[0]) / few


def now(device: str) -> float:
    """CPU time of this process on a CPU, so that neighbours do not count; the clock on a GPU, when it is idle."""
    if device == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--frames", type=int, help="frames per round (default 96 on a CPU, 640 on a GPU)")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--learn", action="store_true", help="also with real learners, one per game")
    args = parser.parse_args()
    torch.set_num_threads(1)
    frames = args.frames or (96 if args.device == "cpu" else 640)
    sources = [f"ale:{game}" for game in GAMES]
    idle = idle_step(len(sources), args.device)
    print(f"{'':37s} ms per frame of {len(sources)} games   operations   ({args.device}, torch {torch.__version__})")
    for scored, where in ((False, "outside of windows"), (True, "inside")):
        ways = {
            "frame by frame": partial(frame_by_frame, sources, args.device, scored, idle),
            "blocks": partial(in_blocks, sources, args.device, scored, idle),
        }
        if args.learn:
            ways["blocks, learning"] = partial(in_blocks, sources, args.device, scored, None)
        best = {name: min(way(frames) for _ in range(args.rounds)) for name, way in ways.items()}
        for name, seconds in best.items():
            asked = "" if "learning" in name else f"{operations(ways[name], 2 * autoencoder_pass.BLOCK):12.1f}"
            times = best["frame by frame"] / seconds
            print(f"{where:19s} {name:17s} {1000 * seconds:8.3f}   {times:5.1f} x {asked}", flush=True)


if __name__ == "__main__":
    main()
