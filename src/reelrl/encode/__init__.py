"""Steering real AV1 encoders: frames and decisions in, packets and reconstructed pictures out.

clip ──► EncoderSession.send(frame, qp=, offsets=) ──► receive() ──► Packet(data, psnr, recon, ...)
             │ lane: a thread with a deadline
             └─► Encoder (svtav1, aom): one stream in a stock library
"""

import importlib
from typing import Any

from reelrl.encode.codecs.backends import Capabilities, probe
from reelrl.encode.codecs.packet import FrameType, Packet
from reelrl.encode.codecs.rate_loop import LeakyBucket
from reelrl.encode.codecs.scheduling import normal_scheduling
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import Encoded, encode_clip, encode_packets, first_pass
from reelrl.encode.codecs.worker import WorkerSession

_HOMES = {
    "AbstractState": "superblock.states",
    "Av1GymEnv": "superblock.env",
    "NaiveState": "superblock.states",
    "Outcome": "superblock.rewards",
    "Script": "script.run",
    "SuperblockQpEnv": "superblock.env",
    "ZERO_MAP": "superblock.maps",
    "register_callbacks": "script.run",
    "run": "script.run",
}

__all__ = [
    "Capabilities",
    "Encoded",
    "EncoderSession",
    "EncoderSettings",
    "FrameType",
    "LeakyBucket",
    "Packet",
    "WorkerSession",
    "encode_clip",
    "encode_packets",
    "first_pass",
    "normal_scheduling",
    "probe",
    *_HOMES,
]


def __getattr__(name: str) -> Any:
    """Scripts and environments bring OpenCV and numba, so they are imported when first asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
