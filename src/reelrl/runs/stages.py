"""What can be trained: the stage that a run folder names, the settings in it, and the commands that it is for."""

from __future__ import annotations

from typing import NamedTuple

from reelrl.errors import RunError


class Stage(NamedTuple):
    """A stage: its settings ("module:Class"), the words behind `reel` that train it, and those that evaluate runs.

    Runs follow the words of `evaluate`, which are empty where nothing evaluates a run by itself; `instead` then says
    what to do. `figure` of metrics.jsonl tells how good a run is, the higher the better ("-loss": the lower). `shared`
    is the artifact that says all by itself ({kind}: best, final), and `use` the words behind `reel` that
    take it from {place}, with the {source} that the run watched.
    """

    settings: str
    train: str
    figure: str
    evaluate: str = ""
    instead: str = ""
    shared: str = ""
    use: str = ""


STAGES: dict[str, Stage] = {
    "superblock": Stage(
        "reelrl.encode.superblock.train:SuperblockTraining",
        "train superblock",
        "eval/reward",
        "evaluate superblock --controllers",
        shared="{kind}_*_model.safetensors",
        use="evaluate superblock --controllers {place}",
    ),
    "minigop": Stage(
        "reelrl.encode.minigop.train:MiniGopTraining",
        "train minigop",
        "epoch/return",
        "evaluate minigop --controllers",
        shared="{kind}_*_model.safetensors",
        use="evaluate minigop --controllers {place}",
    ),
    "target": Stage(
        "reelrl.encode.target.train:TargetTraining",
        "train target",
        "",
        "evaluate target",
        shared="target.safetensors",
        use="encode FILE --target vmaf=93 --model {place} -o out.mkv",
    ),
    "abr": Stage(
        "reelrl.stream.train:AbrTraining",
        "train abr",
        "score",
        "evaluate abr",
        shared="policy.safetensors",
        use="evaluate abr {place}",
    ),
    "autoencoder": Stage(
        "reelrl.see.train:AutoEncoderTraining",
        "train autoencoder",
        "psnr",
        "evaluate autoencoder",
        shared="model.safetensors",
        use="evaluate autoencoder {place} --source {source}",
    ),
    "atari": Stage("reelrl.act.atari.settings:AtariTraining", "train atari", "return", "evaluate atari"),
    "doom": Stage(
        "reelrl.act.marl.settings:DoomTraining",
        "train doom",
        "collection/reward/episode_reward_mean",
        "evaluate doom",
    ),
    "location": Stage(
        "reelrl.act.location.train:LocationTraining", "train location", "val/precision", "evaluate location"
    ),
    "frame-reader": Stage(
        "reelrl.act.location.frame_reader.train:FrameReaderTraining",
        "train frame-reader",
        "-val/loss",
        instead="train a net on it and evaluate that: reel train location DATA --frame-reader {run}",
    ),
    "views": Stage(
        "reelrl.act.views.pretrain:ViewsTraining",
        "pretrain views",
        "-val/loss",
        "evaluate views --encoder",
    ),
}

# What version 0.1 called them; its runs are read, resumed and used as those of today.
FORMER_STAGES = {"eyes": "frame-reader"}


def stage_of(name: str, run: object) -> Stage:
    """The stage that a run names."""
    if name not in STAGES:
        raise RunError(f"{run} is of stage {name!r}, which this version does not know; it knows {', '.join(STAGES)}")
    return STAGES[name]
