"""A short training of every kind, by its command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from reelrl.cli.main import main
from reelrl.runs.folder import RunFolder
from tests.act.location.written_matches import write_matches

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Training:
    """`options` come after `reel train KIND`."""

    kind: str
    options: tuple[str, ...]

    def start(self, root: Path, *more: str) -> int:
        """A new run in `root`; returns the exit status."""
        return main(self.command(root, *more))

    def command(self, root: Path, *more: str) -> list[str]:
        matches = root.parent / "matches"
        data = [str(matches)] if self.kind in ("frame-reader", "location") else []
        if data and not matches.exists():
            write_matches(matches, 6, rows=40)
        return ["train", self.kind, *data, *self.options, "--output-dir", str(root), *more]

    def resume(self, root: Path, *more: str) -> int:
        return main(["train", self.kind, "--resume", str(self.run(root).folder), *more])

    def run(self, root: Path) -> RunFolder:
        return RunFolder(root / "0001")


def _set(*changes: str) -> list[str]:
    return [word for change in changes for word in ("--set", change)]


_ENCODER = "video_encoder_cfg={model_type: cnn, channels: [4, 4], embed_dim: 8}"
_CLIP, _OTHER = "generated:street?size=64x64&frames=18", "generated:cuts?size=64x64&frames=20"
_OPTIONS = {
    "superblock": [
        *("--file", "generated:street?size=64x64&frames=6", "--total-iteration", "4", "--n-steps", "9"),
        *("--eval-freq", "10", "--save-freq", "1000", *_set("learner.hidden=[8]")),
    ],
    "minigop": [
        *("--clip", _CLIP, _OTHER, "--epochs", "2", "--base", "none", "--ckpt-interval", "1"),
        *_set("preset=12", "sac.starts=1", "sac.batch_size=2", "sac.hidden=[8]", "qps=[40,44]"),
    ],
    "abr": _set("steps=6000", "players=32", "links=20", "validate_every=3", "hidden=16"),
    "autoencoder": [
        *("--source", "generated:street?frames=20&size=64x48", "--frames", "7", "--device", "cpu"),
        *_set("model.widths=[[2,2],[2,2],[2,2]]", "log_every=3"),
    ],
    "atari": [
        *("--source", "gym:CartPole-v1", "--frames", "40", "--device", "cpu"),
        *_set("player.net.hidden=[8]", "log_every=7"),
    ],
    "doom": [
        *("--steps", "36", *_set("task.max_steps=8", "task.observation_size=[30, 40]", f"actor.{_ENCODER}")),
        *_set(f"critic.{_ENCODER}", "experiment.on_policy_collected_frames_per_batch=12"),
        *_set("experiment.on_policy_n_envs_per_worker=1", "experiment.on_policy_minibatch_size=6"),
        *_set("experiment.evaluation=false", "experiment.evaluation_interval=12", "experiment.checkpoint_interval=0"),
    ],
    "frame-reader": [
        *("--epochs", "2", "--device", "cpu", *_set("batch=40", "stride=4")),
        *_set("net={channels: [4, 4], blocks: [0, 0], embed_dim: 8, column_dim: 8}"),
    ],
    "location": [
        *("--epochs", "2", "--device", "cpu", *_set("matches_per_batch=2", "moments_of_each=2", "apart_s=0.5")),
        *_set("encoder={model_type: cnn, channels: [4], embed_dim: 8, freeze_backbone: true}"),
        *_set("samples={frames: 2, stride: 2, ahead_s: 1.0}"),
        *_set("net.proj_dim=8", "net.fused_agent_dim=8", "net.hidden_dim=8"),
    ],
}
TRAININGS = {kind: Training(kind, tuple(options)) for kind, options in _OPTIONS.items()}
EXACT = [kind for kind in TRAININGS if kind != "doom"]
"""A resumed run goes on to the same bits; Doom's engine cannot be saved, and may not repeat itself after a pause."""
