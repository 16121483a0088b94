"""Every kind of run, as small as can be: the words after `reel train`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.runs.folder import RunFolder
from reelrl.settings import config, yaml_text

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Words = list[str]


def _set(**settings: object) -> Words:
    return [word for key, value in settings.items() for word in ("--set", f"{key.replace('__', '.')}={value}")]


def superblock(data: Path, root: Path) -> Words:
    clip = "generated:street?size=128x96&frames=6"
    short = ["--total-iteration", "6", "--eval-freq", "20", "--save-freq", "12", "--n-steps", "10"]
    return ["superblock", "--file", clip, "--output-dir", str(root), *short, *_set(learner__hidden="[8]")]


def minigop(data: Path, root: Path) -> Words:
    clips = ["generated:cuts?size=64x64&frames=40", "generated:street?size=64x64&frames=36"]
    quick = _set(preset=12, sac__starts=4, sac__batch_size=4, sac__hidden="[8]", qps="[40,44]")
    return ["minigop", "--output-dir", str(root), "--base", "none", *quick, "--clip", *clips, "--epochs", "3"]


def abr(data: Path, root: Path) -> Words:
    return ["abr", "--runs", str(root), *_set(steps=6000, players=32, links=20, validate_every=1, hidden=16)]


def autoencoder(data: Path, root: Path) -> Words:
    small = _set(model__widths="[[2,2],[2,2],[2,2]]", log_every=4, save_every=4)
    return [
        "autoencoder",
        "--output-dir",
        str(root),
        "--source",
        "ale:Breakout",
        "--device",
        "cpu",
        "--frames",
        "12",
        *small,
    ]


def atari(data: Path, root: Path) -> Words:
    small = _set(player__net__hidden="[8]", log_every=10, save_every=10)
    return [
        "atari",
        "--output-dir",
        str(root),
        "--source",
        "gym:CartPole-v1",
        "--device",
        "cpu",
        "--frames",
        "45",
        *small,
    ]


def frame_reader(data: Path, root: Path) -> Words:
    net = _set(net__channels="[8,8]", net__blocks="[0,0]", net__embed_dim=32, net__column_dim=16)
    return ["frame-reader", _matches(data), "--output-dir", str(root), "--epochs", "3", *net, *_set(stride=4, batch=16)]


def location(data: Path, root: Path) -> Words:
    encoder = _set(
        encoder__model_type="cnn", encoder__channels="[4]", encoder__embed_dim=16, encoder__freeze_backbone="true"
    )
    net = _set(net__proj_dim=16, net__fused_agent_dim=16, net__hidden_dim=32, matches_per_batch=3, moments_of_each=4)
    samples = _set(samples__frames=2, samples__stride=2, samples__ahead_s=1.0)
    return ["location", _matches(data), "--output-dir", str(root), "--epochs", "3", *encoder, *net, *samples]


def doom(data: Path, root: Path) -> Words:
    from tests.act.marl.small_training import small_training

    small = config.to_mapping(small_training(max_n_frames=36))
    words = ["doom", "--output-dir", str(root)]
    for part in ("task", "actor", "critic", "experiment"):
        path = data / f"{part}.yaml"
        path.write_text(yaml_text.write(small[part]))
        words += [f"--{part}", str(path)]
    return words


TRAININGS: dict[str, Callable[[Path, Path], Words]] = {
    "superblock": superblock,
    "minigop": minigop,
    "abr": abr,
    "autoencoder": autoencoder,
    "atari": atari,
    "frame-reader": frame_reader,
    "location": location,
    "doom": doom,
}


def _matches(data: Path) -> str:
    from tests.act.location.written_matches import write_matches

    folder = data / "matches"
    if not folder.exists():
        write_matches(folder, 6, rows=40)
    return str(folder)


def restored_doom_differs(folder: Path) -> list[str]:
    """Names of what a Doom training does not have again after its checkpoint is restored; an engine can't be saved."""
    import numpy as np

    from reelrl.act.marl import settings as doom_training
    from reelrl.act.marl.benchmarl.train import DoomExperiment
    from reelrl.agents import state_tree

    run = RunFolder(folder)
    checkpoint = run.checkpoints.latest()
    if checkpoint is None:
        return ["there is no checkpoint"]
    experiment = DoomExperiment(run.settings(doom_training.DoomTraining), seed=5)
    experiment.restore(checkpoint)
    arrays, plain = state_tree.split(experiment.state_dict())
    frames = experiment.total_frames
    experiment.close()
    found, saved = dict(plain[1]), dict(checkpoint.state["experiment"][1])
    kept = checkpoint.tensors
    differ = [name for name in arrays if name not in kept or not np.array_equal(arrays[name], kept[name])]
    differ = [name for name in differ if name != "collector.traj_pool.traj_id"]  # matches begin anew
    differ += [name for name in ("chance", "optimisers") if found[name] != saved[name]]
    return differ + ([f"{frames} frames of {checkpoint.step}"] if frames != checkpoint.step else [])
