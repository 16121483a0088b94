"""The part of `reel demo` on bitrates: a clip with cuts under one bitrate, by the encoder's own control and by ours.

A task is set by constant quality: the rate that crf takes at one QP is what everybody else has to meet.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

from reelrl.content import open_clip
from reelrl.encode.minigop.evaluate import MiniGopEvaluationPlan
from reelrl.encode.minigop.evaluation.controller_encodes import controller_encode
from reelrl.encode.minigop.evaluation.encoder_modes import crf_encode, mode_encode
from reelrl.report.charts import Axis, Line, line_chart, line_style, signed
from reelrl.report.demo_part import DemoPart
from reelrl.report.page import code, columns, figure, section, table
from reelrl.runs.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.content import Clip
    from reelrl.encode.minigop.evaluation.encode_cache import Encode
    from reelrl.report.demo_part import DemoOptions
    from reelrl.report.page import Html

CLIP, QP = "generated:cuts?size=352x288&frames=240", 40
MODES = {"vbr1": "SVT-AV1's VBR", "vbr2": "SVT-AV1's VBR, two passes"}
OURS = "rate-model"
TITLE = "A bitrate is met"
LEAD = (
    "The same encoder, the same clip, the same bitrate. The encoder's own rate control against a rule that sets the QP "
    "of every mini-GOP from a probe encode and from what the frames so far have cost."
)


class RateTrial(NamedTuple):
    name: str
    encode: Encode
    kbps: int

    @property
    def off_percent(self) -> float:
        """How far the rate is from its target."""
        return 100 * (self.encode.kbps / self.kbps - 1)

    def record(self) -> dict[str, object]:
        kept = {"name": self.name, "kbps": self.encode.kbps, "target_kbps": self.kbps, "off_percent": self.off_percent}
        return kept | self.encode.quality


def make(folder: Path, options: DemoOptions) -> DemoPart:  # noqa: ARG001 - has a clip of its own, leaves no file
    clip = open_clip(CLIP).load()
    trials = measure(clip)
    lines = [
        ["rate", trial.name, f"{trial.encode.kbps:.0f} kbps", f"{signed(trial.off_percent, 1)} %", _quality(trial)]
        for trial in trials
    ]
    record = {"rates": [trial.record() for trial in trials]}
    return DemoPart(TITLE, LEAD, sections(clip, trials), record, lines)


def measure(clip: Clip) -> list[RateTrial]:
    plan = MiniGopEvaluationPlan()
    with Progress("rate", 2 + len(MODES), unit="encodes") as progress:
        kbps = round(crf_encode(clip, plan.settings, QP).kbps)
        progress.update()
        trials = []
        for mode, name in MODES.items():
            trials.append(RateTrial(name, mode_encode(clip, plan.settings, mode, kbps), kbps))
            progress.update()
        trials.append(RateTrial(OURS, controller_encode(OURS, clip, plan, kbps), kbps))
        progress.update()
    return trials


def sections(clip: Clip, trials: Sequence[RateTrial]) -> list[Html]:
    seconds = float(1 / clip.fps)
    chart = line_chart(
        [
            Line(trial.name, spent_over_time(trial, seconds), **(line_style(i) | {"marker": "none"}))
            for i, trial in enumerate(trials)
        ],
        x=Axis("s"),
        y=Axis("% of the budget so far"),
        title="Bits spent of what the bitrate allowed up to each moment",
    )
    rows = [
        [
            trial.name,
            f"{trial.encode.kbps:.0f}",
            f"{signed(trial.off_percent, 1)} %",
            *(f"{trial.encode.quality[metric]:.2f}" for metric in ("psnr_y", "psnr_y_of_mean")),
            str(trial.encode.passes),
        ]
        for trial in trials
    ]
    heads = ["who", "kbit/s", "off", "mean PSNR-Y", "of the mean error", "passes"]
    caption = (
        f"{clip.frame_count} frames with cuts, {clip.width}x{clip.height}, target {trials[0].kbps} kbit/s, PSNR-Y in "
        "dB. One clip proves little: reel evaluate minigop takes many."
    )
    return [
        section(
            TITLE,
            LEAD,
            columns(
                figure(chart, "Whoever ends at 100 % has met the bitrate."), table(heads, rows, caption, wrap=True)
            ),
            code("reel demo --only rate --again\nreel encode FILE -o out.mkv --bitrate 800\nreel evaluate minigop"),
        )
    ]


def spent_over_time(trial: RateTrial, frame_s: float) -> list[tuple[float, float]]:
    """Per cent of the bits that the target allows up to the end of each half second."""
    allowed = trial.kbps * 1000 * frame_s / 8
    shares = [
        (number * frame_s, 100 * spent / (number * allowed))
        for number, spent in enumerate(accumulate(trial.encode.frame_bytes), 1)
    ]
    step = max(1, round(0.5 / frame_s))
    return shares[step - 1 :: step]


def _quality(trial: RateTrial) -> str:
    return f"{trial.encode.quality['psnr_y']:.2f} dB, {trial.encode.quality['psnr_y_of_mean']:.2f} dB by the mean error"
