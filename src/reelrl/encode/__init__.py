"""Steering real AV1 encoders: frames and decisions in, packets and reconstructed pictures out.

clip ──► EncoderSession.send(frame, qp=, offsets=) ──► receive() ──► Packet(data, psnr, recon, ...)
             │ lane: a thread with a deadline
             └─► Encoder (svtav1, aom): one stream in a stock library
"""

from typing import Any

from reelrl.encode.backends import Capabilities, probe
from reelrl.encode.coding import Encoded, encode_clip, encode_packets, first_pass
from reelrl.encode.packet import FrameType, Packet
from reelrl.encode.rate_loop import LeakyBucket
from reelrl.encode.scheduling import normal_scheduling
from reelrl.encode.session import EncoderSession
from reelrl.encode.settings import EncoderSettings
from reelrl.encode.worker import WorkerSession

__all__ = [
    "Capabilities",
    "Encoded",
    "EncoderSession",
    "EncoderSettings",
    "FrameType",
    "LeakyBucket",
    "Packet",
    "Script",
    "WorkerSession",
    "encode_clip",
    "encode_packets",
    "first_pass",
    "normal_scheduling",
    "probe",
    "register_callbacks",
    "run",
]


def __getattr__(name: str) -> Any:
    """The scripting functions bring OpenCV and numba, so they are imported when first asked for."""
    if name in ("Script", "register_callbacks", "run"):
        from reelrl.encode import script

        return getattr(script, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
