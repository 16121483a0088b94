"""The encoder's own rate-distortion curve of each clip as one file: what training measures an agent against.

    {"schema": 1, "encoder": "svtav1 4.1.0", "settings": {...},
     "clips": {"NAME": {"content_hash": "...", "frames": 150, "points": [
         {"qp": 28, "kbps": 321.4, "psnr_y": 40.1, "ssim_y": 0.981}, ...]}}}

`reel evaluate minigop --baseline FILE` writes it, `reel train minigop --baseline-stats FILE` reads it. Points are crf
encodes in the structure of the goal, the best quality first; PSNR-Y is the mean of the frames'.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from reelrl.encode.codecs.backends import capabilities
from reelrl.errors import ContentError
from reelrl.settings.config import to_mapping
from reelrl.storage.files import explain_os_error, write_atomic
from reelrl.storage.plain_data import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from reelrl.encode.minigop.evaluate import MiniGopEvaluationPlan
    from reelrl.encode.minigop.evaluation.rate_point import RatePoint

SCHEMA = 1


@dataclass(frozen=True)
class BaselinePoint:
    """One crf encode."""

    qp: int
    kbps: float
    psnr_y: float
    ssim_y: float


def write_baseline(path: Path, points: Sequence[RatePoint], plan: MiniGopEvaluationPlan) -> None:
    """The crf points of an evaluation, clip by clip."""
    clips: dict[str, Any] = {}
    for point in points:
        if point.contestant != "crf":
            continue
        facts = {"content_hash": point.content_hash, "frames": point.frames, "points": []}
        ssim = 1 - 10 ** (-point.quality["ssim_db"] / 10)
        record = {"qp": point.qp, "kbps": point.kbps, "psnr_y": point.quality["psnr_y"], "ssim_y": ssim}
        clips.setdefault(point.clip, facts)["points"].append(record)
    settings = plan.settings
    encoder = f"{settings.backend} {capabilities(settings.backend).version}"
    whole = {"schema": SCHEMA, "encoder": encoder, "settings": to_mapping(settings), "clips": clips}
    write_atomic(path, json.dumps(whole, indent=2) + "\n")


def read_baseline(path: Path) -> dict[str, list[BaselinePoint]]:
    """Curves by the clips' names, and again by their content hashes."""
    try:
        record = parse_json(path.read_bytes())
        if record["schema"] != SCHEMA:
            raise ContentError(f"{path} has schema {record['schema']}, this version reads {SCHEMA}; write it anew")
        curves: dict[str, list[BaselinePoint]] = {}
        for name, clip in record["clips"].items():
            points = [BaselinePoint(**{key: each[key] for key in _FIELDS}) for each in clip["points"]]
            curves[name] = curves[clip["content_hash"]] = points
    except OSError as error:
        raise ContentError(explain_os_error(error, path, "read")) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ContentError(
            f"{path} is no file of baselines ({type(error).__name__}: {error}); "
            f"write one: reel evaluate minigop --baseline {path}"
        ) from error
    return curves


_FIELDS = tuple(BaselinePoint.__dataclass_fields__)
