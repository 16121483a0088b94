"""libaom's real-time mode as a `Backend`: one pass, every frame alike, an exact quantiser per picture.

`EncoderSettings(backend=REAL_TIME)`: cbr is libaom's own; in cqp each picture takes the QP it is sent with.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from reelrl.encode.codecs.aom import api
from reelrl.encode.codecs.aom.backend import Aom

if TYPE_CHECKING:
    from reelrl.content.frame import Frame
    from reelrl.encode.codecs.backends import Capabilities
    from reelrl.encode.codecs.control import Control
    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.codecs.settings import EncoderSettings

REAL_TIME = "reelrl.encode.codecs.aom.realtime:AomRealTime"
"""What settings call it."""


class AomRealTime(Aom):
    """One libaom stream in real-time mode; presets 5 to 11."""

    _USAGE = api.REAL_TIME
    _BY_CALLBACK = False
    _PRESETS = (5, 11)

    @staticmethod
    def capabilities() -> Capabilities:
        return replace(
            Aom.capabilities(),
            backend=REAL_TIME,
            superblock_offsets=False,
            base_qp_change=True,
            notes=("picture QPs by libaom's own control for one pass",),
            title="libaom in real time",
            maps_in=(),
            exact_maps=False,
            quantisers_need_statistics=False,
            first_pass_in=(),
            own_modes=(),
        )

    @staticmethod
    def refusal(settings: EncoderSettings) -> str | None:
        if settings.rate_control not in ("cqp", "cbr"):
            return f"rate_control = {settings.rate_control}: libaom in real time has cqp and cbr here"
        return Aom.refusal(settings)

    def _set_controls(self) -> None:
        super()._set_controls()
        if self._settings.rate_control == "cqp":
            self._control(api.AQ_MODE, 0)

    def encode(self, frame: Frame, control: Control) -> list[Packet]:
        if self._settings.rate_control == "cqp":
            if control.base_qp is not None:
                self._qp = control.base_qp
            self._control(api.QUANTIZER_ONE_PASS, control.qp if control.qp is not None else self._qp)
        return super().encode(frame, control)

    def _control(self, number: int, value: int) -> None:
        status = self._lib.aom_codec_control(self._context, number, api.ffi.cast("int", value))
        self._check(status, f"take control {number} = {value}")
