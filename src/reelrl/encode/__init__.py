"""Steering real AV1 encoders: frames and decisions in, packets and reconstructed pictures out.

clip ──► EncoderSession.send(frame, qp=, offsets=) ──► receive() ──► Packet(data, psnr, recon, ...)
             │ a thread with a deadline
             └─► Backend (svtav1, aom): one stream in a stock library
"""

from typing import TYPE_CHECKING

from reelrl.encode.codecs.backends import Capabilities, capabilities, probe
from reelrl.encode.codecs.packet import FrameType, Packet
from reelrl.encode.codecs.rate_loop import FrameQpBucket, LeakyBucket
from reelrl.encode.codecs.scheduling import normal_scheduling
from reelrl.encode.codecs.session import EncoderSession
from reelrl.encode.codecs.settings import EncoderSettings
from reelrl.encode.codecs.whole_clip import Encoded, encode_clip, encode_packets, first_pass
from reelrl.encode.codecs.worker import WorkerSession
from reelrl.names import lazy

if TYPE_CHECKING:
    from reelrl.encode.frameqp.env import FrameQpEnv as FrameQpEnv
    from reelrl.encode.handshake.encoder_side import HandshakeEncoder as HandshakeEncoder
    from reelrl.encode.handshake.trainer_side import HandshakeSource as HandshakeSource
    from reelrl.encode.minigop.controllers.learned import load_minigop_controller as load_minigop_controller
    from reelrl.encode.minigop.env import MiniGopQpEnv as MiniGopQpEnv
    from reelrl.encode.minigop.protocols import MiniGopFeedback as MiniGopFeedback
    from reelrl.encode.minigop.protocols import MiniGopRequest as MiniGopRequest
    from reelrl.encode.minigop.run import run_controller as run_controller
    from reelrl.encode.minigop.source.preparation import open_source as open_source
    from reelrl.encode.script.run import Script as Script
    from reelrl.encode.script.run import register_callbacks as register_callbacks
    from reelrl.encode.script.run import run as run
    from reelrl.encode.superblock.env import Av1GymEnv as Av1GymEnv
    from reelrl.encode.superblock.env import SuperblockQpEnv as SuperblockQpEnv
    from reelrl.encode.superblock.learned import load_map_controller as load_map_controller
    from reelrl.encode.superblock.maps import ZERO_MAP as ZERO_MAP
    from reelrl.encode.superblock.rewards import Outcome as Outcome
    from reelrl.encode.superblock.states import AbstractState as AbstractState
    from reelrl.encode.superblock.states import NaiveState as NaiveState

# Scripts and environments bring OpenCV and numba, so they are imported when they are first used.
_HOMES = {
    "AbstractState": "superblock.states",
    "Av1GymEnv": "superblock.env",
    "FrameQpEnv": "frameqp.env",
    "HandshakeEncoder": "handshake.encoder_side",
    "HandshakeSource": "handshake.trainer_side",
    "MiniGopFeedback": "minigop.protocols",
    "MiniGopQpEnv": "minigop.env",
    "MiniGopRequest": "minigop.protocols",
    "NaiveState": "superblock.states",
    "Outcome": "superblock.rewards",
    "Script": "script.run",
    "SuperblockQpEnv": "superblock.env",
    "ZERO_MAP": "superblock.maps",
    "load_map_controller": "superblock.learned",
    "load_minigop_controller": "minigop.controllers.learned",
    "open_source": "minigop.source.preparation",
    "register_callbacks": "script.run",
    "run": "script.run",
    "run_controller": "minigop.run",
}

__all__ = [
    "Capabilities",
    "Encoded",
    "EncoderSession",
    "EncoderSettings",
    "FrameQpBucket",
    "FrameType",
    "LeakyBucket",
    "Packet",
    "WorkerSession",
    "capabilities",
    "encode_clip",
    "encode_packets",
    "first_pass",
    "normal_scheduling",
    "probe",
    *_HOMES,
]

__getattr__, __dir__ = lazy(__name__, _HOMES)
