"""Steering real AV1 encoders: frames and decisions in, packets and reconstructed pictures out.

clip ──► EncoderSession.send(frame, qp=, offsets=) ──► receive() ──► Packet(data, psnr, recon, ...)
             │ lane: a thread with a deadline
             └─► Encoder (svtav1, aom): one stream in a stock library
"""

import importlib
from typing import Any

from reelrl.encode.backends import Capabilities, probe
from reelrl.encode.coding import Encoded, encode_clip, encode_packets, first_pass
from reelrl.encode.packet import FrameType, Packet
from reelrl.encode.rate_loop import LeakyBucket
from reelrl.encode.scheduling import normal_scheduling
from reelrl.encode.session import EncoderSession
from reelrl.encode.settings import EncoderSettings
from reelrl.encode.worker import WorkerSession

_HOMES = {
    "AbstractState": "states",
    "Av1GymEnv": "superblock_env",
    "NaiveState": "states",
    "Outcome": "rewards",
    "Script": "script",
    "SuperblockQpEnv": "superblock_env",
    "ZERO_MAP": "maps",
    "register_callbacks": "script",
    "run": "script",
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
