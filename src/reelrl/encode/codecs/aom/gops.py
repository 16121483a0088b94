"""Where libaom stands in its GOPs: which frame it codes next, of what kind, and what its look-ahead knows of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from reelrl.encode.codecs.aom import api

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.encode.codecs.aom.context import AomContext

ffi = api.ffi

FrameKind = Literal["key", "golden", "arf", "inner_arf", "leaf", "overlay"]
KINDS: tuple[FrameKind, ...] = ("key", "golden", "arf", "inner_arf", "leaf", "overlay")

LEAF_LAYER = 6
"""Layer that libaom gives to frames nobody refers to, and to overlays."""

TPL_FIELDS = ("intra_cost", "inter_cost", "source_distortion", "coded_distortion")
_BLOCK = np.dtype(
    {
        "names": TPL_FIELDS,
        "formats": ["<i4", "<i4", "<i8", "<i8"],
        "offsets": [ffi.offsetof("TplBlock", name) for name in TPL_FIELDS],
        "itemsize": ffi.sizeof("TplBlock"),
    }
)


@dataclass(frozen=True, slots=True)
class FrameToCode:
    """One coded frame before it is coded.

    number      place among the frames that are coded, from 0; a frame that is only shown again does not count
    frame       place of its picture in the clip, from 0
    gop         GOPs before this one; `gop_frames` is how many frames this one shows
    layer       0 for key and golden frames, 1 for an ARF, then deeper; leaves and overlays have 6
    look_ahead  by `TPL_FIELDS`, means over blocks: what coding it from itself and from others would cost, and the
                errors; empty where libaom made no such analysis
    """

    number: int
    frame: int
    gop: int
    gop_frames: int
    kind: FrameKind
    layer: int
    look_ahead: tuple[float, ...] = ()


class GopTracker:
    """Follows libaom through its GOPs. Entries of a GOP are coded, or shown again without being coded."""

    def __init__(self) -> None:
        self._info = ffi.new("GopInfo*")
        self._gop, self._entry, self._entries = -1, 0, 0
        self._key_frame = self._next_frame = 0
        self._kinds: list[FrameKind] = []
        self._earlier: set[int] = set()  # pictures that were coded in earlier GOPs
        self._number = 0
        self._tpl: NDArray[np.float64] = np.zeros((0, len(TPL_FIELDS)))

    def next(self, context: AomContext) -> FrameToCode:
        """The entry that libaom has come to; only for one that is coded."""
        if self._entry == 0:
            self._start(context)
        at, info = self._entry, self._info
        seen = tuple(self._tpl[at].tolist()) if at < len(self._tpl) else ()
        frame = self._key_frame + info.display[at]
        shows = self._next_frame - self._first
        return FrameToCode(self._number, frame, self._gop, shows, self._kinds[at], info.layer[at], seen)

    def done(self, context: AomContext, *, coded: bool) -> None:
        """Libaom is through with the entry."""
        if self._entry == 0 and self._entries == 0:
            self._start(context)  # a GOP whose first entry is only shown again
        self._number += coded
        self._entry += 1
        if self._entry == self._entries:
            self._entry = self._entries = 0
            self._tpl = np.zeros((0, len(TPL_FIELDS)))

    @property
    def between_gops(self) -> bool:
        """Whether the next frame that libaom codes starts a GOP."""
        return self._entries == 0

    def analysed(self, gop: Any) -> None:
        """Take the look-ahead's figures, which come before the GOP's first frame is coded."""
        rows = np.zeros((gop.count, len(TPL_FIELDS)))
        for number in range(gop.count):
            frame = gop.frames[number]
            if frame.count:
                blocks = np.frombuffer(ffi.buffer(frame.blocks, frame.count * _BLOCK.itemsize), _BLOCK)
                rows[number] = [blocks[name].mean() for name in TPL_FIELDS]
        self._tpl = rows

    def _start(self, context: AomContext) -> None:
        if self._entries:
            return
        context.control(api.GET_GOP_INFO, self._info)
        info = self._info
        self._gop, self._entries = self._gop + 1, int(info.size)
        if info.layer[0] == 0 and info.display[0] == 0:
            self._key_frame = self._next_frame
            self._earlier = set()
        coded = set(self._earlier)
        self._kinds = []
        for at in range(self._entries):
            display, layer = int(info.display[at]), int(info.layer[at])
            self._kinds.append(_kind(display, layer, display in coded))
            coded.add(display)
        self._earlier = coded
        self._first = self._next_frame
        self._next_frame = self._key_frame + max(info.display[at] for at in range(self._entries)) + 1


def _kind(display: int, layer: int, again: bool) -> FrameKind:
    if again:
        return "overlay"
    if layer == 0:
        return "golden" if display else "key"
    if layer == 1:
        return "arf"
    return "leaf" if layer == LEAF_LAYER else "inner_arf"
