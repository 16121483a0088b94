"""Decisions for stock tools: a QP file for SVT-AV1's own program, zones and scenes for Av1an.

Av1an codes every zone as a clip of its own, so zones begin at scene cuts and are never shorter than its own scenes.
What arrives of the decisions is the difference between scenes: each gets the CRF that takes about its bits.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

from reelrl.encode.minigop.protocols import CRF_STEPS_PER_QP
from reelrl.errors import ConfigError, ContentError
from reelrl.storage.files import explain_os_error, write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode.minigop.source.in_process import InProcessSource

MIN_SCENE_FRAMES = 24
"""Shortest scene, as in Av1an."""


@dataclass(frozen=True)
class Decisions:
    """What was decided for a video, picture by picture in display order.

    qps     QP that each picture was coded with
    crfs    CRF that takes about the bits which the mini-GOP of each picture was given
    cuts    frames at which the picture changes altogether
    preset  of the encoder
    """

    qps: Sequence[int]
    crfs: Sequence[float]
    cuts: Sequence[int]
    preset: int

    @classmethod
    def of(cls, source: InProcessSource) -> Decisions:
        """Those of a pass that is complete."""
        if len(source.packets) != source.clip.frame_count:
            raise ConfigError(
                f"{len(source.packets)} of {source.clip.frame_count} frames are coded; export a pass that is complete"
            )
        crfs: list[float] = []
        cuts: list[int] = []
        for planned, delta in zip(source.minigops, source.deltas, strict=True):
            crfs += [planned.base_qp + CRF_STEPS_PER_QP * delta] * planned.frames
            if behind := int(planned.features["cut_frames"]):
                cuts.append(planned.first_frame + planned.frames - behind)
        return cls([packet.qp for packet in source.packets], crfs, cuts, source.settings.preset)


class SceneCrf(NamedTuple):
    """Frames `first` to `end` - 1, and the CRF they get."""

    first: int
    end: int
    crf: int


def scenes_of(decisions: Decisions) -> list[SceneCrf]:
    """The scenes between cuts; one shorter than `MIN_SCENE_FRAMES` is joined with its neighbour."""
    end = len(decisions.qps)
    starts = [0]
    for cut in decisions.cuts:
        if cut - starts[-1] >= MIN_SCENE_FRAMES and end - cut >= MIN_SCENE_FRAMES:
            starts.append(cut)
    scenes = []
    for first, following in pairwise([*starts, end]):
        mean = sum(decisions.crfs[first:following]) / (following - first)
        scenes.append(SceneCrf(first, following, min(max(round(mean), 1), 63)))
    return scenes


def qp_file_text(decisions: Decisions) -> str:
    """One QP per line, in input order, for `SvtAv1EncApp --rc 0 --use-q-file 1 --qpfile FILE`.

    In low delay the QPs are those that the encoder gave its pictures.
    """
    return "".join(f"{qp}\n" for qp in decisions.qps)


def read_qp_file(path: Path) -> list[int]:
    """The QPs of a QP file."""
    try:
        lines = path.read_text().split()
    except (OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError):
            raise ContentError(explain_os_error(error, path, "read")) from error
        raise ContentError(f"{path} is no text; a qp-file has one QP per line") from error
    for number, line in enumerate(lines, 1):
        if not (line.isdecimal() and 1 <= int(line) <= 63):
            raise ContentError(f"{path} line {number} is {line!r}; a qp-file has one QP from 1 to 63 per line")
    return [int(line) for line in lines]


def zones_text(decisions: Decisions) -> str:
    """A zone per scene for `av1an --zones FILE`: first frame, end (which is outside), encoder, options.

    Scenes with one CRF that follow each other share a zone.
    """
    zones: list[SceneCrf] = []
    for scene in scenes_of(decisions):
        if zones and zones[-1].crf == scene.crf:
            scene = SceneCrf(zones.pop().first, scene.end, scene.crf)
        zones.append(scene)
    return "".join(f"{zone.first} {zone.end} svt-av1 --crf {zone.crf} --preset {decisions.preset}\n" for zone in zones)


def scenes_text(decisions: Decisions) -> str:
    """The scenes with their options for `av1an --scenes FILE`, which then looks for no cuts itself."""
    scenes = [_av1an_scene(scene, decisions.preset) for scene in scenes_of(decisions)]
    return json.dumps({"frames": len(decisions.qps), "scenes": scenes, "split_scenes": scenes}, indent=2) + "\n"


def _av1an_scene(scene: SceneCrf, preset: int) -> dict[str, Any]:
    # They replace those of Av1an's command line; key frames come only where a scene begins, as by its own defaults.
    params = ["--preset", str(preset), "--keyint", "0", "--scd", "0", "--rc", "0", "--crf", str(scene.crf)]
    options = {
        "encoder": "svt_av1",
        "passes": 1,
        "video_params": params,
        "photon_noise": None,
        "photon_noise_height": None,
        "photon_noise_width": None,
        "chroma_noise": False,
        "extra_splits_len": None,
        "min_scene_len": MIN_SCENE_FRAMES,
        "target_quality": None,
    }
    return {"start_frame": scene.first, "end_frame": scene.end, "zone_overrides": options}


EXPORTS = {"qpfile": qp_file_text, "zones": zones_text, "scenes": scenes_text}
"""Texts by the name of their flag, `--export-NAME FILE`."""


def export(decisions: Decisions, kind: str, path: Path) -> None:
    """Write the decisions for one of `EXPORTS`."""
    write_atomic(path, EXPORTS[kind](decisions).encode())
