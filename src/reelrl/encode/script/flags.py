"""Keyword flags in the spelling of SVT-AV1's command line, turned into settings.

run(input="clip.y4m", pred_struct=1, rc=2, tbr=100)   is   --input clip.y4m --pred-struct 1 --rc 2 --tbr 100
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from reelrl.encode.codecs.settings import EncoderSettings, RateControl, Structure
from reelrl.errors import ConfigError

_SHORT = {"-i": "input", "-b": "output", "-w": "width", "-h": "height", "-q": "qp", "-n": "frames", "-s": "skip"}
_STRUCTURES: dict[str, Structure] = {"1": "low_delay", "2": "random_access"}


@dataclass(frozen=True)
class Job:
    """A whole command line: what to read, what to write, and how to encode."""

    input: str
    output: str | None
    size: tuple[int, int] | None
    fps: Fraction | None
    frames: int | None
    settings: EncoderSettings


def spelled(flags: dict[str, Any]) -> list[tuple[str, str]]:
    """Flags as the command line spells them: one letter `-x`, words `--some-word`, booleans 1 and 0."""
    return [(_flag(name), _value(value)) for name, value in flags.items()]


def parse(flags: dict[str, Any]) -> Job:
    """What the flags ask for. Those that are not ours go to the encoder under their own names."""
    given = {_SHORT.get(flag, flag.lstrip("-")): value for flag, value in spelled(flags)}
    if not given.get("input"):
        raise ConfigError("no input was given; name a clip: run(input='clip.y4m', ...)")
    path, output = given.pop("input"), given.pop("output", None)
    width, height = _whole(given, "width"), _whole(given, "height")
    if (width is None) != (height is None):
        raise ConfigError(f"width = {width}, height = {height}; give both or neither")
    return Job(
        input=path,
        output=output,
        size=(width, height) if width is not None and height is not None else None,
        fps=_fps(given),
        frames=_whole(given, "frames") or None,
        settings=_settings(given),
    )


def _flag(name: str) -> str:
    if name.startswith("-"):
        return name
    return f"-{name}" if len(name) == 1 else "--" + name.replace("_", "-")


def _value(value: Any) -> str:
    return str(int(value)) if isinstance(value, bool) else str(value)


def _settings(given: dict[str, str]) -> EncoderSettings:
    structure = given.pop("pred-struct", "2")
    if structure not in _STRUCTURES:
        raise ConfigError(f"pred-struct = {structure}; use 1 for low delay, 2 for random access")
    backend = given.pop("backend", "svtav1")
    rate_control, target = _rate(given)
    qp = _whole(given, "crf") if rate_control == "crf" and "crf" in given else _whole(given, "qp")
    settings = EncoderSettings(
        backend=backend,
        structure=_STRUCTURES[structure],
        rate_control=rate_control,
        target_kbps=target,
        recon=False,
    )
    named = {
        "preset": _whole(given, "preset"),
        "qp": qp,
        "threads": _whole(given, "lp"),
        "keyint": _whole(given, "keyint"),
        "hierarchical_levels": _whole(given, "hierarchical-levels"),
        "tune": _whole(given, "tune"),
    }
    chosen: dict[str, Any] = {name: value for name, value in named.items() if value is not None}
    return replace(settings, options=given, **chosen)


def _rate(given: dict[str, str]) -> tuple[RateControl, float | None]:
    mode, adaptive = given.pop("rc", "0"), given.get("aq-mode")
    if mode == "0":
        fixed = adaptive == "0" or ("qp" in given and "crf" not in given and adaptive is None)
        given.pop("aq-mode", None)
        return ("cqp" if fixed else "crf"), None
    if mode not in ("1", "2"):
        raise ConfigError(f"rc = {mode}; use 0 for a fixed quality, 1 for variable, 2 for constant bitrate")
    target = given.pop("tbr", None)
    try:
        return ("vbr" if mode == "1" else "cbr"), float(target) if target is not None else None
    except ValueError:
        raise ConfigError(f"tbr = {target}; give the target bitrate in kbit/s") from None


def _fps(given: dict[str, str]) -> Fraction | None:
    whole, top, bottom = given.pop("fps", None), given.pop("fps-num", None), given.pop("fps-denom", "1")
    text = whole if whole is not None else f"{top}/{bottom}" if top is not None else None
    try:
        return Fraction(text) if text is not None else None
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"fps = {text}; give a number such as 30 or 30000/1001") from None


def _whole(given: dict[str, str], name: str) -> int | None:
    text = given.pop(name, None)
    try:
        return int(text) if text is not None else None
    except ValueError:
        raise ConfigError(f"{name} = {text}; give a whole number") from None
