"""The part of `reel demo` on seeing: an autoencoder watches a game for a minute and learns from each frame once."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from reelrl.agents.devices import use_threads
from reelrl.report.charts import Axis, Line, line_chart
from reelrl.report.demo_part import DemoPart
from reelrl.report.page import code, columns, figure, image, section
from reelrl.runs.progress import Progress
from reelrl.see.frames.source import FrameSource, postprocess_output
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures.baselines import FIGURES, StreamScores, psnr, summary
from reelrl.see.settings import FRAME_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from torch import Tensor

    from reelrl.content.pictures import Picture
    from reelrl.report.demo_part import DemoOptions
    from reelrl.report.page import Html

SOURCE, SEED, FRAMES = "ale:Breakout", 0, 1000
SHOWN = (20, 150, 1000)
WINDOW = 50
TITLE = "Learn while you watch"
LEAD = (
    "An autoencoder sees each frame of a game once, guesses it, is scored, learns from it, and forgets it: no batches, "
    "no second look."
)


class Guess(NamedTuple):
    """A frame and what was made of it before the model learned from it."""

    number: int
    frame: Picture
    picture: Picture
    psnr_db: float


class WatchedGame(NamedTuple):
    """Scores of every frame, FIGURES of each; and the frames that are shown."""

    scores: Tensor
    guesses: list[Guess]

    def curve(self, column: str) -> list[tuple[float, float]]:
        """PSNR of the mean error of each window of frames, at its end."""
        return [(end, psnr(mse)) for end, mse in self._windows(column)]

    def foreground_curve(self, column: str) -> list[tuple[float, float]]:
        """The same over the pixels that differ from the background; windows without any are left out."""
        pairs = zip(self._windows(column), self._windows("foreground_share"), strict=True)
        return [(end, psnr(error / share)) for (end, error), (_, share) in pairs if share > 0]

    def _windows(self, column: str) -> list[tuple[float, float]]:
        values = self.scores[: len(self.scores) // WINDOW * WINDOW, FIGURES.index(column)]
        return [(float((i + 1) * WINDOW), mean) for i, mean in enumerate(values.view(-1, WINDOW).mean(dim=1).tolist())]

    def last(self) -> dict[str, float]:
        """PSNRs over the last quarter."""
        means = self.scores[-len(self.scores) // 4 :].mean(dim=0)
        return summary(dict(zip(FIGURES, means.tolist(), strict=True)))


def make(folder: Path, options: DemoOptions) -> DemoPart:  # noqa: ARG001 - has a game of its own, leaves no file
    use_threads(1)  # two wait for each other where other programs work: 0.1 frames/s instead of 3
    watched = watch(SOURCE, SEED, FRAMES, SHOWN)
    last = watched.last()
    line = ["see", SOURCE, f"{FRAMES} frames", f"{last['psnr']:.1f} dB", f"mean frame {last['mean_frame_psnr']:.1f} dB"]
    return DemoPart(TITLE, LEAD, sections(watched), {"see": {"source": SOURCE, "frames": FRAMES} | last}, [line])


def watch(source: str, seed: int, frames: int, shown: Sequence[int]) -> WatchedGame:
    """Learn from the first `frames` frames of a source."""
    model, scores, rows, guesses = StreamingAutoEncoder(), StreamScores(FRAME_SIZE), [], []
    with FrameSource(source, seed) as feed, Progress("see", frames, unit="frames") as progress:
        for number, frame in enumerate(feed, 1):
            result = model.learn(frame.pixels, reset=frame.cut)
            rows.append(scores(result.frame, result.reconstruction))
            if number in shown:
                pictures = postprocess_output(result.frame), postprocess_output(result.reconstruction)
                guesses.append(Guess(number, *pictures, psnr(float(result.mse))))
            progress.update()
            if number >= frames:
                break
    return WatchedGame(torch.stack(rows), guesses)


def sections(watched: WatchedGame) -> list[Html]:
    last = watched.last()
    seen = [figure(image(watched.guesses[-1].frame, "A frame of the game"), "the game")]
    seen += [
        figure(image(guess.picture, f"Guess {guess.number}"), f"frame {guess.number}: {guess.psnr_db:.1f} dB")
        for guess in watched.guesses
    ]
    return [
        section(
            TITLE,
            f"{LEAD} After {len(watched.scores)} frames it guesses at {last['psnr']:.1f} dB where the mean of all "
            f"frames has {last['mean_frame_psnr']:.1f}; where something moves, {_foreground(last)}.",
            columns(*seen, narrow=2),
            columns(
                figure(_chart(watched.curve, "mse"), f"All pixels; a point is {WINDOW} frames."),
                figure(_chart(watched.foreground_curve, "foreground"), "Pixels that differ from the background."),
            ),
            code(f"reel demo --only see --again\nreel train autoencoder --source {SOURCE} --frames 10000 --view"),
        )
    ]


def _chart(curve: Callable[[str], list[tuple[float, float]]], column: str) -> Html:
    styles = {
        "the autoencoder": ("model", "one", False),
        "the mean of all frames": ("mean", "quiet", False),
        "the frame before": ("previous", "two", True),
    }
    return line_chart(
        [
            Line(name, curve(f"{who}_{column}"), colour, "none", dashed)
            for name, (who, colour, dashed) in styles.items()
        ],
        x=Axis("frame"),
        y=Axis("PSNR, dB"),
        title="PSNR of guessed frames while the model learns, beside guesses that need no network",
    )


def _foreground(last: dict[str, float]) -> str:
    ours, mean = last.get("foreground_psnr"), last.get("mean_frame_foreground_psnr")
    return "nothing did" if ours is None or mean is None else f"at {ours:.1f} dB against {mean:.1f}"
