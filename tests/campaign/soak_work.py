"""What a soak does in each round: encodes, environments, controllers, a learner, viewers, handshakes, Doom."""

from __future__ import annotations

import json
import sys
import urllib.request
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch

from reelrl.content.write.video import write_video
from reelrl.encode import EncoderSession, WorkerSession
from reelrl.encode.handshake.trainer_side import HandshakeSource
from reelrl.encode.minigop.controllers.rules import CrfReplay
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.superblock.env import SuperblockQpEnv
from reelrl.runs.live_server import LiveServer
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.settings import AutoEncoderSettings
from reelrl.stream import ABREnv, load_bitrate_controller
from reelrl.stream.data.generated_traces import mobile_trace
from reelrl.stream.data.ladders import nominal_ladder
from reelrl.stream.playback import play
from tests.act.makers import coop_env, together
from tests.encode.makers import coded, random_decisions, scene, settings_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CLIP = scene("street", 12, (64, 64))


class Settled:
    """What lives through the whole soak: a folder, a learner that watches on and on, and a page that shows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        torch.set_num_threads(1)
        self.learner = StreamingAutoEncoder(AutoEncoderSettings(widths=((2, 2), (2, 2), (2, 2))))
        self.live = LiveServer("<p>soak</p>", 0)
        self.clip = folder / "street.y4m"
        write_video(self.clip, CLIP)
        self.round = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.live.close()


def _encode(kind: type[Any], backend: str) -> Callable[[Settled], None]:
    def encode(settled: Settled) -> None:
        decisions = random_decisions(12, CLIP.superblock_count, settled.round)
        for structure in ("low_delay", "random_access") if backend == "svtav1" else ("low_delay",):
            settings = settings_for(CLIP, backend, structure, picture_qp=True, preset=12)
            for _ in range(4 if kind is EncoderSession else 1):
                coded(CLIP, settings, lambda number: decisions[number], kind)

    return encode


def _superblock_env(settled: Settled) -> None:
    env = SuperblockQpEnv(CLIP)
    env.reset(seed=settled.round)
    for _ in range(12):
        env.step(env.action_space.sample())
    env.close()


def _abr(settled: Settled) -> None:
    rng = np.random.default_rng(settled.round)
    settled.round += 1
    trace = mobile_trace(rng, duration_s=120.0)
    for name in ("bba", "bola", "robustmpc", "ppo"):
        play(load_bitrate_controller(name), trace, nominal_ladder())
    env = ABREnv(trace)
    env.reset(seed=0)
    terminated = False
    while not terminated:
        _, _, terminated, _, _ = env.step(env.action_space.sample())


def _autoencoder(settled: Settled) -> None:
    generator = torch.Generator().manual_seed(settled.round)
    for _ in range(10):
        settled.learner.learn(torch.rand(3, 224, 224, generator=generator))


def _viewers(settled: Settled) -> None:
    settled.live.publish({"round": settled.round})
    for _ in range(5):
        with urllib.request.urlopen(settled.live.url, timeout=60) as page:
            assert b"soak" in page.read()
        with urllib.request.urlopen(settled.live.url + "events", timeout=60) as events:
            assert json.loads(events.readline().partition(b":")[2])["round"] >= 0


def _handshake(settled: Settled) -> None:
    folder = settled.folder / "handshake"
    output = settled.folder / "out.ivf"
    flags = [
        "--bitrate",
        "60",
        "--structure",
        "low_delay",
        "--hierarchical-levels",
        "2",
        "--preset",
        "12",
        "--crf",
        "40",
    ]
    command = [
        sys.executable,
        "-m",
        "reelrl.cli.reel_encoder",
        "--input",
        str(settled.clip),
        "--o",
        str(output),
        *flags,
    ]
    with HandshakeSource(folder, [*command, "--rl-dir", "{rl_dir}"]) as source:
        run_controller(source, CrfReplay(1.0))


def _doom(settled: Settled) -> None:
    env = coop_env(2)
    try:
        env.reset(seed=settled.round)
        for step in range(40):
            env.step(together(env, step % 8))
    finally:
        env.close()


WORK: dict[str, Callable[[Settled], object]] = {
    "svtav1": _encode(EncoderSession, "svtav1"),
    "aom": _encode(EncoderSession, "aom"),
    "svtav1-worker": _encode(WorkerSession, "svtav1"),
    "aom-worker": _encode(WorkerSession, "aom"),
    "superblock": _superblock_env,
    "abr": _abr,
    "autoencoder": _autoencoder,
    "viewers": _viewers,
    "handshake": _handshake,
    "doom": _doom,
}
