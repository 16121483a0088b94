"""What the first request of the handshake may tell of the whole encode: the fields of `MiniGopEpisode`, checked."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from reelrl.encode.handshake.messages import HIGHEST_QP, LOWEST_QP, Field, Message, field_value, shown
from reelrl.encode.minigop.protocols import MiniGopEpisode, PlannedMiniGop
from reelrl.errors import HandshakeError

EPISODE: dict[str, Field] = {
    "clip": Field("string", "name of the clip"),
    "width": Field("integer", "luma pixels", least=0),
    "height": Field("integer", "luma pixels", least=0),
    "frames": Field("integer", "frames of the whole clip", least=1),
    "goal": Field("string", "vbr: a budget for the whole; cbr: a rate at every moment"),
    "kbps": Field("number", "bitrate", least=0),
    "budget_bits": Field("number", "bits for the whole clip", least=0),
    "buffer_s": Field("number", "seconds that the leaky bucket holds", least=0),
    "feedback_lag": Field("integer", "mini-GOPs between a decision and the first one that knows its cost", least=0),
    "passes": Field("integer", "encodes of the whole clip that were made before", least=0),
    "octaves_per_qp": Field("number", "what a QP step takes from the bits"),
}
PLANNED: dict[str, Field] = {
    "mg": Field("integer", "number of the mini-GOP", least=0),
    "gop": Field("integer", "number of its GOP", least=0),
    "first_frame": Field("integer", "display number of its first frame", least=0),
    "frames": Field("integer", "frames in it", least=1),
    "base_qp": Field("integer", "QP that the encoder itself would base it on", LOWEST_QP, HIGHEST_QP),
    "layer_qps": Field("integers", "QP that the encoder itself would give each picture", 0, 63),
    "features": Field("numbers by name", "inter, scene_cut and what else the analysis knows"),
    "probe_bits": Field("integer", "what the probe pass spent", least=0, needed=False),
    "probe_sse": Field("integer", "what the probe pass missed", least=0, needed=False),
}
_RATE = re.compile(r"\d{1,9}(/\d{1,9}|\.\d{1,9})?", re.ASCII)


def read_episode(message: Message, known: dict[str, Any]) -> MiniGopEpisode:
    """The episode as the stream's first request tells it; `known` counts where it does not."""
    facts = known | message.get("episode", {})
    facts = facts | {
        name: field_value(facts[name], field, name, "episode") for name, field in EPISODE.items() if name in facts
    }
    fps = facts["fps"] = _rate(facts["fps"])
    frames = facts.setdefault("frames", message.get("first_frame", 0) + message["frames_left"])
    facts.setdefault("kbps", float(message["bits_left"] * fps / frames / 1000))
    facts.setdefault("budget_bits", facts["kbps"] * 1000 * frames / float(fps))
    for name in ("kbps", "budget_bits"):
        if facts[name] <= 0:
            raise HandshakeError(f"episode: {name} = {shown(facts[name])}; tell what the encode may take, above 0")
    if facts["goal"] not in ("vbr", "cbr"):
        raise HandshakeError(f'episode: goal = {shown(facts["goal"])}; write "vbr" or "cbr"')
    facts["plan"] = _plan(facts.get("plan"))
    try:
        return MiniGopEpisode(**facts)
    except TypeError as error:
        raise HandshakeError(
            f"the episode cannot be made of {shown(facts)}: {error}; see docs/how-to/steer-your-own-encoder.md"
        ) from error


def _rate(fps: Any) -> Fraction:
    """Frames per second, from a number or from text such as 30000/1001."""
    if isinstance(fps, str):
        # By a pattern: Fraction("1e999999999") would take all memory.
        rate = Fraction(fps) if _RATE.fullmatch(fps) and not re.search(r"/0+$", fps) else Fraction(0)
    elif isinstance(fps, Fraction):
        rate = fps
    else:
        rate = Fraction(field_value(fps, Field("number", "frames per second"), "fps", "episode"))
    rate = rate.limit_denominator(1001)
    if rate <= 0:
        raise HandshakeError(f'episode: fps = {shown(fps)}; write frames per second, such as 24 or "30000/1001"')
    return rate


def _plan(plan: Any) -> tuple[PlannedMiniGop, ...] | None:
    if plan is None:
        return None
    if not isinstance(plan, list | tuple) or not plan:
        raise HandshakeError(f"episode: plan = {shown(plan)}; write a list of mini-GOPs, or leave it out")
    return tuple(_planned(each, number) for number, each in enumerate(plan))


def _planned(entry: Any, number: int) -> PlannedMiniGop:
    if isinstance(entry, PlannedMiniGop):
        return entry
    where = f"episode: plan[{number}]"
    if not isinstance(entry, dict) or not entry.keys() <= PLANNED.keys():
        raise HandshakeError(f"{where} = {shown(entry)}; write an object of {', '.join(PLANNED)}")
    entry = {name: value for name, value in entry.items() if value is not None}
    missing = [name for name, field in PLANNED.items() if field.needed and name not in entry]
    if missing:
        raise HandshakeError(f"{where} lacks {', '.join(missing)}; write every field, or leave the plan out")
    facts = {name: field_value(value, PLANNED[name], name, where) for name, value in entry.items()}
    if facts["mg"] != number or not {"inter", "scene_cut"} <= facts["features"].keys():
        raise HandshakeError(f"{where} = {shown(entry)}; list mini-GOPs from 0 on, with features inter and scene_cut")
    return PlannedMiniGop(**facts | {"layer_qps": tuple(facts["layer_qps"])})
