"""What an encoder is asked to do: one frozen dataclass, checked where it is made."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from reelrl.content.clip import SUPERBLOCK_SIZE, superblock_grid
from reelrl.content.frame import check_depth, check_size
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from reelrl.content.clip import Clip

RateControl = Literal["cqp", "crf", "vbr", "cbr"]
Structure = Literal["low_delay", "random_access"]

SUPERBLOCK = SUPERBLOCK_SIZE
"""Side of a superblock in pixels; both encoders are held to it."""

MAX_OFFSET = 3
"""Superblock offset that every encoder takes, in QP steps, in either direction; `Capabilities` knows who takes more."""

QINDEX_PER_QP = 4
"""AV1 counts quantisers in 256 steps (qindex); one QP step is four of them."""

_DEADLINE_PIXELS, _DEADLINE_PRESET = 1280 * 720, 8  # for which `deadline_s` is meant


@dataclass(frozen=True, kw_only=True)
class EncoderSettings:
    """Settings of one encoder session.

    backend              name of the encoder: "svtav1", "aom", or "my_pkg.mine:Backend"
    width, height        pixels, even; 0 means "as the clip says" (see `for_clip`)
    preset               the encoder's speed preset, 0 (slow) to 13 (fast); aom stops at 6 and takes more as 6
    rate_control         "cqp" fixed quantiser pyramid, "crf" with the encoder's look at temporal dependency,
                         "vbr" and "cbr" at `target_kbps`
    bit_depth            bits of a sample, 8 or 10, in frames, stream and reconstructions; `for_clip` takes the clip's
    qp                   base quantiser of cqp and crf, 1 (best) to 63
    crf_quarters         0 to 3 quarters of a step above `qp`: 30 and 1 are CRF 30.25 (crf without picture_qp)
    picture_qp           every picture is coded at exactly the QP it is sent with (else `qp`); no pyramid
    structure            "low_delay" gives one packet per frame at once; "random_access" reorders and looks ahead
    hierarchical_levels  a mini-GOP holds 2**levels pictures; None takes 0 in low delay, 4 in random access
    keyint               frames from one key frame to the next; -1 for only the first
    threads              worker threads of the encoder; with 1 even VBR gives the same bytes each time
    tune                 the encoder's own tune number, or None for its default
    recon, psnr, ssim    deliver reconstructed planes; measure errors (0.05 ms per CIF frame); measure SSIM (1 ms)
    deadline_s           how long one call may take before the session is given up, for pictures of 720p or less at
                         preset 8 or faster; `call_deadline_s` is that of these settings
    options              more of the encoder's own options, by its own names
    """

    backend: str = "svtav1"
    width: int = 0
    height: int = 0
    fps: Fraction = Fraction(30)
    preset: int = 10
    rate_control: RateControl = "cqp"
    qp: int = 40
    picture_qp: bool = False
    target_kbps: float | None = None
    structure: Structure = "low_delay"
    hierarchical_levels: int | None = None
    keyint: int = -1
    threads: int = 1
    tune: int | None = None
    recon: bool = True
    psnr: bool = True
    ssim: bool = False
    deadline_s: float = 60.0
    options: dict[str, str] = field(default_factory=dict)
    bit_depth: int = 8
    crf_quarters: int = 0

    def __post_init__(self) -> None:
        if self.width or self.height:
            check_size(self.width, self.height)
        _in_range("preset", self.preset, 0, 13)
        _in_range("qp", self.qp, 1, 63)
        _in_range("threads", self.threads, 1, 64)
        check_depth(self.bit_depth)
        self._check_quarters()
        if self.keyint != -1 and self.keyint < 1:
            raise ConfigError(f"keyint = {self.keyint}; use -1 for one key frame, or a number of frames from 1")
        if self.hierarchical_levels is not None:
            _in_range("hierarchical_levels", self.hierarchical_levels, 0, 5)
        if self.fps <= 0:
            raise ConfigError(f"fps = {self.fps}; a frame rate is above zero")
        if self.deadline_s <= 0:
            raise ConfigError(f"deadline_s = {self.deadline_s}; give the encoder some seconds to answer")
        self._check_rate()

    def _check_quarters(self) -> None:
        _in_range("crf_quarters", self.crf_quarters, 0, 3)
        if self.crf_quarters and (self.rate_control != "crf" or self.picture_qp or self.qp == 63):
            raise ConfigError(
                f"crf_quarters = {self.crf_quarters} with rate_control = {self.rate_control}, picture_qp = "
                f"{self.picture_qp}, qp = {self.qp}; quarter steps are for crf below 63 without picture_qp"
            )

    def _check_rate(self) -> None:
        if self.steers_rate:
            if self.target_kbps is None or not self.target_kbps > 0:
                raise ConfigError(f"rate_control = {self.rate_control} with target_kbps = {self.target_kbps}; set it")
            if self.picture_qp:
                raise ConfigError(
                    f"picture_qp with rate_control = {self.rate_control}: the encoder would ignore the QPs; "
                    "use cqp or crf and hold the bitrate yourself (reelrl.encode.FrameQpBucket does)"
                )
        elif self.target_kbps is not None:
            raise ConfigError(
                f"target_kbps = {self.target_kbps} with rate_control = {self.rate_control}, which has no target; "
                "use vbr or cbr, or leave it out"
            )

    @property
    def steers_rate(self) -> bool:
        """The encoder itself chooses QPs to meet a bitrate, and ignores ours."""
        return self.rate_control in ("vbr", "cbr")

    @property
    def low_delay(self) -> bool:
        return self.structure == "low_delay"

    @property
    def levels(self) -> int:
        """Hierarchical levels in force."""
        if self.hierarchical_levels is not None:
            return self.hierarchical_levels
        return 0 if self.low_delay else 4

    @property
    def crf(self) -> float:
        """`qp` with its quarters."""
        return self.qp + self.crf_quarters / 4

    @property
    def call_deadline_s(self) -> float:
        """How long one call may take, by the work in it: the end of a stream codes some forty pictures in one call."""
        size = self.width * self.height / _DEADLINE_PIXELS
        slowness = 2 ** ((_DEADLINE_PRESET - self.preset) / 2)  # CPU of a picture, about
        return self.deadline_s * max(size, 1.0) * max(slowness, 1.0)

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of superblocks."""
        return superblock_grid(self.width, self.height, SUPERBLOCK)

    @property
    def superblocks(self) -> int:
        rows, columns = self.grid
        return rows * columns

    def for_clip(self, clip: Clip) -> EncoderSettings:
        """The same settings with the clip's size, frame rate and bit depth."""
        if self.bit_depth > clip.depth:
            raise ConfigError(
                f"bit_depth = {self.bit_depth}, but {clip.name} has {clip.depth} bits; encode clip.at_depth(10)"
            )
        return replace(self, width=clip.width, height=clip.height, fps=clip.fps, bit_depth=clip.depth)


# Settings of a later version with their defaults: what was cached before them is found again.
_LATER = {"bit_depth": 8, "crf_quarters": 0}


def key_facts(settings: Mapping[str, Any], unseen: Iterable[str]) -> dict[str, Any]:
    """Of settings as plain data those that name what is cached of a stream; `unseen` change nothing in it."""
    left_out = {*unseen, *(name for name, default in _LATER.items() if settings[name] == default)}
    return {name: value for name, value in settings.items() if name not in left_out}


def _in_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigError(f"{name} = {value}; use {low} to {high}")


def qindex_of(qp: int) -> int:
    """AV1's quantiser index of a QP; the two ends of the scale are stretched, as in both encoders."""
    return {62: 249, 63: 255}.get(qp, QINDEX_PER_QP * qp)
