"""The page of `reel demo`, from the most telling to the most detailed. The first trial is the one shown in pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reelrl.content.clip import SUPERBLOCK_SIZE
from reelrl.content.pictures import rgb
from reelrl.content.quality import psnr_from_sse, sse
from reelrl.encode import features
from reelrl.encode.demo.measure import COMPARED_QP, FAVOUR, MOVING_SHARE, PRESET, QPS, REST
from reelrl.report.charts import Axis, Line, line_chart, signed, superblock_map
from reelrl.report.page import (
    Stat,
    code,
    columns,
    facts,
    figure,
    image,
    join,
    section,
    stats,
    table,
    tag,
    video,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from reelrl.content import Clip
    from reelrl.encode import Encoded
    from reelrl.encode.demo.measure import Motion, Trial, Way
    from reelrl.report.charts import Marker
    from reelrl.report.page import Html

    Window = tuple[int, int, int, int]  # x, y, width, height

ZOOMED = (128, 64)
"""Width and height of the parts shown enlarged: two superblocks side by side."""

COLOURS = {"aom": "one", "svtav1": "two"}
MARKERS: dict[str, Marker] = {"aom": "circle", "svtav1": "square"}
SPACE = "\N{NO-BREAK SPACE}"


class ShownWindows(NamedTuple):
    """What of the clip is enlarged: a frame, a part of it that moves, and one that does not."""

    frame: int
    moving: Window
    still: Window


TITLE = "Spend the bits where it moves"


def lead(clip: Clip) -> str:
    return (
        "An AV1 encoder takes a quantiser for every superblock of 64x64 pixels. Here a plain rule sets it: finer where "
        f"something moves, coarser elsewhere, for the same size. {clip.frame_count} frames of {_recipe(clip)}, "
        f"{clip.width}x{clip.height}, two encoders."
    )


def sections(clip: Clip, motion: Motion, trials: Sequence[Trial], command: str) -> list[Html]:
    windows = choose_windows(clip, motion)
    shown = trials[0]
    return [
        _headline(trials, motion),
        _zoomed(shown, windows),
        _maps(shown, motion, windows),
        _videos(trials),
        _account(trials, motion),
        _frame_by_frame(shown, motion),
        _curves(trials),
        _how(clip, trials, command),
    ]


def choose_windows(clip: Clip, motion: Motion) -> ShownWindows:
    """By the source alone, before anything is encoded: fastest superblocks of the middle half, most detail at rest."""
    quarter = len(motion.moving) // 4
    speed = np.where(motion.moving, motion.speed, 0)[quarter : len(motion.moving) - quarter]
    number = quarter + int(speed.max(axis=1).argmax())
    detail = features.clip_features(clip)[number, features.GRADIENT]
    at_rest = np.where(motion.moving[number], -detail.max(), detail)
    return ShownWindows(number, window(clip, speed[number - quarter]), window(clip, at_rest))


def window(clip: Clip, score: NDArray[np.float32]) -> Window:
    """The part of a frame with the highest sum of a score per superblock."""
    pixels = score.reshape(clip.grid).repeat(SUPERBLOCK_SIZE, 0).repeat(SUPERBLOCK_SIZE, 1)
    width, height = min(ZOOMED[0], clip.width), min(ZOOMED[1], clip.height)
    corners = [
        (min(left, clip.width - width), min(top, clip.height - height))
        for top in range(0, clip.height, SUPERBLOCK_SIZE)
        for left in range(0, clip.width, SUPERBLOCK_SIZE)
    ]
    x, y = max(corners, key=lambda at: float(pixels[at[1] : at[1] + height, at[0] : at[0] + width].sum()))
    return x, y, width, height


def _headline(trials: Sequence[Trial], motion: Motion) -> Html:
    changes = [trial.change(motion.moving) for trial in trials]
    decibels = [[f"{signed(value, 2)}{SPACE}dB" for value in change] for change in changes]
    ours, zeros = (
        [f"{signed(trial.growth(getattr(trial, way)), 1)}{SPACE}%" for trial in trials] for way in ("mapped", "zero")
    )

    def stat(label: str, figures: Sequence[str]) -> Stat:
        others = [f"{t.name}{SPACE}{f}" for t, f in zip(trials[1:], figures[1:], strict=True)]
        return Stat(figures[0], label, ", ".join(others))

    cards = [
        stat("PSNR where it moves", [values[0] for values in decibels]),
        stat("PSNR elsewhere", [values[1] for values in decibels]),
        stat("bytes", ours),
        stat("fee of a map of zeros", zeros),
    ]
    note = f"With the map against no map. Large: {trials[0].name}; below: {trials[1].name}."
    return join([stats(cards), tag("p", note, class_="note")])


def _zoomed(trial: Trial, windows: ShownWindows) -> Html:
    rows = [
        columns(*_enlarged(trial, windows.frame, place, what))
        for place, what in ((windows.moving, "where it moves"), (windows.still, "where it rests"))
    ]
    return section(
        "Before and after",
        f"Frame {windows.frame} by {trial.name} at {trial.plain.coded.kbps:.0f} kbps: the part that moves fastest and, "
        "for the price, the part with most detail at rest. Both were chosen by the source alone.",
        *rows,
    )


def _enlarged(trial: Trial, number: int, place: Window, what: str) -> list[Html]:
    x, y, width, height = place
    part = np.s_[y : y + height, x : x + width]
    source = list(trial.plain.coded.clip)[number]
    shown = [figure(image(rgb(source)[part], f"Part of frame {number} {what}: the source"), f"source, {what}")]
    for name, way in (("no map", trial.plain), ("with the map", trial.mapped)):
        recon = way.coded.packets[number].recon or source
        error = sse(np.ascontiguousarray(source.y[part]), np.ascontiguousarray(recon.y[part]))
        picture = image(rgb(recon)[part], f"Part of frame {number} {what}: {name}")
        shown.append(figure(picture, join([tag("b", name), f"{psnr_from_sse(error, width * height):.2f} dB"])))
    return shown


def _maps(trial: Trial, motion: Motion, windows: ShownWindows) -> Html:
    number = windows.frame
    picture = rgb(list(trial.plain.coded.clip)[number])
    before, after = (way.sse[number] for way in (trial.plain, trial.mapped))
    gains = [psnr_from_sse(new, 1) - psnr_from_sse(old, 1) for old, new in zip(before, after, strict=True)]
    boxes = (windows.moving, windows.still)
    asked = superblock_map(
        picture,
        motion.offsets[number],
        title=f"Frame {number} with the QP offset of each superblock; {motion.moving[number].sum()} are favoured",
        note=lambda row, column, value: f"row {row}, column {column}: {signed(value, 0)} QP steps",
        boxes=boxes,
    )
    got = superblock_map(
        picture,
        gains,
        title=f"Frame {number} with the change of each superblock's quality, in dB",
        label=lambda value: signed(value, 1),
        note=lambda row, column, value: f"row {row}, column {column}: {signed(value, 2)} dB",
        lower_is_better=False,
        limit=3,
        boxes=boxes,
    )
    return section(
        "The map, and what came of it",
        f"Favoured are the {100 * MOVING_SHARE:.3g} % of the clip's superblocks that move fastest against the camera. "
        "What a superblock gains or loses outlives its frame, because later frames are predicted from it.",
        columns(
            figure(asked, "Asked for: QP steps. Blue is finer, red is coarser. The boxes are the parts shown above."),
            figure(got, "Got: PSNR-Y against no map, in dB. Blue is better, red is worse."),
        ),
    )


def _videos(trials: Sequence[Trial]) -> Html:
    clip = trials[0].plain.coded.clip
    rows = [
        columns(
            video(f"{trial.backend}-plain.mp4", f"{trial.name}, no map", clip.width, clip.height),
            video(f"{trial.backend}-map.mp4", f"{trial.name}, with the map", clip.width, clip.height),
            narrow=2,
        )
        for trial in trials
    ]
    return section("In motion", "AV1 in MP4, as the encoders wrote it.", *rows)


def _account(trials: Sequence[Trial], motion: Motion) -> Html:
    def row(trial: Trial, name: str, way: Way) -> list[str]:
        first = way is trial.plain
        size = f"{way.coded.size_bytes:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")
        growth = "" if first else f"{signed(trial.growth(way), 2)}{SPACE}%"
        scores = [f"{value:.2f}" for value in way.quality(motion.moving)]
        return [trial.name if first else "", name, f"{way.qp:g}", size, growth, *scores]

    rows = [
        row(trial, name, way)
        for trial in trials
        for name, way in (("no map", trial.plain), ("map of zeros", trial.zero), ("the map", trial.mapped))
    ]
    whole = [f"{signed(t.change(motion.moving).whole, 2)}{SPACE}dB with {t.name}" for t in trials]
    heads = ["encoder", "sent", "base QP", "bytes", "against no map", "moving", "elsewhere", "whole"]
    return section(
        "The whole account",
        f"A map moves quality from one place to another. Over the whole picture PSNR changes by {' and '.join(whole)}: "
        "worth it only to those who care more for what moves. The base QP under the map was searched for the size "
        "nearest to that without one; a fraction means that whole QPs take turns from frame to frame. SVT-AV1 carries "
        "a map as segments, which cost bits even when all are zero; libaom carries it as delta-q, which does not.",
        table(heads, rows, "PSNR-Y in dB, of the mean squared error over all frames"),
    )


def _frame_by_frame(trial: Trial, motion: Motion) -> Html:
    def lines(values: Callable[[Way], list[tuple[float, float]]], unit: str) -> list[Line]:
        return [
            Line(name, points, colour, "none", dashed, [f"frame {x:.0f}, {name}: {y:.4g} {unit}" for x, y in points])
            for name, way, colour, dashed in (
                ("no map", trial.plain, "quiet", True),
                ("with the map", trial.mapped, "one", False),
            )
            for points in [values(way)]
        ]

    def sizes(way: Way) -> list[tuple[float, float]]:
        return [(packet.number, packet.size) for packet in way.coded.packets]

    def scores(way: Way) -> list[tuple[float, float]]:
        return [(i, _frame_psnr(way, motion, i)) for i in range(len(motion.moving)) if motion.moving[i].any()]

    size_axis, frame_axis = Axis("bytes", log=True), Axis("frame")
    return section(
        "Frame by frame",
        f"What {trial.name} spent on each frame, and what the moving superblocks got for it.",
        columns(
            figure(
                line_chart(lines(sizes, "bytes"), x=frame_axis, y=size_axis, title="Bytes of each frame, both ways"),
                "Bytes, on a logarithmic axis. Frame 0 is the key frame.",
            ),
            figure(
                line_chart(lines(scores, "dB"), x=frame_axis, y=Axis("dB"), title="PSNR where it moves, both ways"),
                "PSNR-Y of the superblocks that move.",
            ),
        ),
    )


def _frame_psnr(way: Way, motion: Motion, number: int) -> float:
    only = np.zeros_like(motion.moving)
    only[number] = motion.moving[number]
    return way.psnr(only)


def _curves(trials: Sequence[Trial]) -> Html:
    chart = line_chart(
        [_curve(trial) for trial in trials],
        x=Axis("kbps", log=True),
        y=Axis("PSNR-Y, dB"),
        title="PSNR-Y against bitrate, both encoders",
    )
    rows = [
        ["" if i else trial.name, str(coded.settings.qp), f"{coded.kbps:.1f}", f"{coded.psnr_y:.2f}"]
        for trial in trials
        for i, coded in enumerate(trial.curve)
    ]
    return section(
        "Rate and distortion",
        f"No map, low delay, at QP {', '.join(map(str, QPS))}. Further up and left is better. The two run at different "
        "speeds and code key frames differently, so this is no contest between them.",
        columns(
            figure(chart, "Mean PSNR-Y of the frames against bitrate; point at a mark for its figures."),
            table(["encoder", "QP", "kbps", "PSNR-Y"], rows),
        ),
    )


def _curve(trial: Trial) -> Line:
    def note(coded: Encoded) -> str:
        return f"{trial.name}, QP {coded.settings.qp}: {coded.kbps:.1f} kbps, {coded.psnr_y:.2f} dB"

    return Line(
        trial.name,
        [(coded.kbps, coded.psnr_y) for coded in trial.curve],
        COLOURS[trial.backend],
        MARKERS[trial.backend],
        notes=[note(coded) for coded in trial.curve],
    )


def _how(clip: Clip, trials: Sequence[Trial], command: str) -> Html:
    settings = [
        (f"{t.name} {t.version}", f'EncoderSettings(backend="{t.backend}", qp={COMPARED_QP}, preset={PRESET})')
        for t in trials
    ]
    return section(
        "Make it again",
        "The same command gives the same figures; --clip takes a video of yours.",
        code(command),
        facts(
            [
                ("clip", f"{_recipe(clip)}, {clip.frame_count} frames at {clip.fps} per second"),
                ("SHA-256", clip.content_hash),
                ("the map", f"{signed(FAVOUR, 0)} QP steps where it moves, {signed(REST, 0)} elsewhere"),
                *settings,
                ("all else", "as EncoderSettings has it: fixed quantisers, low delay, one key frame, one thread"),
            ]
        ),
    )


def _recipe(clip: Clip) -> str:
    """The clip's name without the window that the frame count tells already."""
    return clip.name.partition("[")[0]
