"""A file to encode: what is asked for, coded by a policy or by the encoder's own rate control."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from reelrl.content.clip import Clip
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import Encoded, encode_clip
from reelrl.encode.minigop.controllers.learned import load_minigop_controller
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.preparation import open_source
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.encode.minigop.run import MiniGopRun
    from reelrl.encode.minigop.source.in_process import InProcessSource


@dataclass(frozen=True)
class EncodeJob:
    """What to encode and how; `kbps` is a budget for the whole, or `constant`. None leaves it to the quality."""

    clip: Clip
    settings: EncoderSettings
    kbps: float | None
    constant: bool = False
    start_qp: int | None = None

    @property
    def own_rate_control(self) -> EncoderSettings:
        """The settings for an encoder that nobody steers."""
        if self.kbps is None:
            return self.settings
        if not self.constant:
            return replace(self.settings, rate_control="vbr", target_kbps=self.kbps)
        levels = min(self.settings.levels, 2)  # all that SVT-AV1's cbr knows
        return replace(self.settings, rate_control="cbr", target_kbps=self.kbps, hierarchical_levels=levels)

    def alone(self, statistics: bytes | None = None) -> Encoded:
        """The clip by the encoder's own rate control; with statistics of a first pass, in two passes."""
        return encode_clip(self.clip, self.own_rate_control, statistics=statistics)

    def steered(
        self, policy: str, seed: int = 0, phase: Callable[[str, int], AbstractContextManager[Any]] | None = None
    ) -> tuple[InProcessSource, MiniGopRun]:
        """The clip coded by a policy. `phase(label, passes)` surrounds each part, with how often the clip is read."""
        phase = phase or (lambda label, passes: nullcontext())  # noqa: ARG005 - nobody watches
        controller = load_minigop_controller(policy)
        if controller.privileged:
            raise ConfigError(f"{policy} codes the clip many times to decide once; see it with `reel evaluate minigop`")
        # Its hash, our analysis of it, and the probe; what is cached from an earlier time is not read again.
        with phase("prepare", 2 if self.settings.low_delay else 3):
            source = open_source(self.clip, self.settings, kbps=self.kbps)
        with phase("encode", 1):
            return source, run_controller(source, controller, seed)
