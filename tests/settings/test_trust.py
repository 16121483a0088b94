"""No setting runs code: a module that leaves a mark when imported is named in every setting of every train command."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.cli.main import main
from reelrl.errors import ConfigError
from reelrl.file_trust import trusting_files
from reelrl.runs.folder import Run, RunFolder
from reelrl.settings import config, yaml_text
from tests.canary import CANARY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.canary import Canary


def trainings() -> dict[str, Any]:
    """The settings of every train command."""
    from reelrl.act.atari.settings import AtariTraining
    from reelrl.act.location.frame_reader.train import FrameReaderTraining
    from reelrl.act.location.train import LocationTraining
    from reelrl.act.marl.settings import load
    from reelrl.encode.minigop.train import MiniGopTraining
    from reelrl.encode.superblock.train import SuperblockTraining
    from reelrl.see.train import AutoEncoderTraining
    from reelrl.stream.train import AbrTraining

    return {
        "abr": AbrTraining(),
        "atari": AtariTraining(),
        "autoencoder": AutoEncoderTraining(source="ale:Pong"),
        "doom": load(),
        "frame-reader": FrameReaderTraining(data="matches"),
        "location": LocationTraining(data="matches"),
        "minigop": MiniGopTraining(clips=("generated:cuts",)),
        "superblock": SuperblockTraining(files=("generated:cuts?frames=2&size=64x64",)),
    }


def text_keys(plain: Any, kinds: Any = None, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The dotted keys of plain settings that hold, or may hold, text."""
    found = []
    for key, value in plain.items():
        place = (*before, key)
        if isinstance(value, dict):
            found += text_keys(value, None, place)
        elif isinstance(value, str | list) or value is None:
            found.append(place)
    return found


def with_value(plain: dict[str, Any], place: tuple[str, ...], value: Any) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(plain))
    node = changed
    for key in place[:-1]:
        node = node[key]
    node[place[-1]] = [value] if isinstance(node[place[-1]], list) else value
    return changed


@pytest.mark.parametrize(
    "stage", ["abr", "atari", "autoencoder", "doom", "frame-reader", "location", "minigop", "superblock"]
)
def test_no_setting_of_a_run_or_a_settings_file_may_be_foreign(canary: Canary, stage: str) -> None:
    settings = trainings()[stage]
    plain = config.to_mapping(settings)
    places = text_keys(plain)
    assert places
    with Run.create(canary.folder / "runs", settings, stage=stage, name="x", seed=0, tensorboard=False) as run:
        folder = run.folder
    for place in places:
        written = yaml_text.write({"stage": stage, "settings": with_value(plain, place, CANARY)})
        (folder / "config.yaml").write_text(written)
        (canary.folder / "mine.yaml").write_text(written)
        readers: list[Callable[[], Any]] = [
            lambda: RunFolder(folder).settings(type(settings)),
            lambda: config.named(settings, canary.folder / "mine.yaml"),
            lambda: config.load(type(settings), canary.folder / "mine.yaml"),
        ]
        for read in readers:
            with pytest.raises(ConfigError, match=r"yaml.*canary_code:Boom.*--trust"):
                read()
    assert canary.alive


@pytest.mark.parametrize(
    ("stage", "setting"),
    [
        ("minigop", "base=canary_code:Boom"),
        ("minigop", "encoder=./evil-program"),
        ("superblock", "state=canary_code:Boom"),
        ("superblock", "reward=canary_code:Boom"),
        ("superblock", "encoder.backend=canary_code:Boom"),
        ("autoencoder", "source=gym:canary_code:Boom-v0"),
        ("atari", "source=gym:canary_code:Boom-v0"),
        ("location", "encoder.model_type=canary_code:Boom"),
        ("doom", "actor.video_encoder_cfg.model_type=canary_code:Boom"),
        ("doom", "actor.activation_class=canary_code.Boom"),
        ("doom", "task.extra_game_args=+logfile x"),
        ("doom", "experiment.restore_file=x.pt"),
    ],
)
def test_resuming_a_run_runs_nothing_that_it_names(
    canary: Canary, stage: str, setting: str, capsys: pytest.CaptureFixture[str]
) -> None:
    # A foreign name may be typed: that is how such a run comes about.
    settings = config.override(trainings()[stage], [setting])
    with Run.create(canary.folder / "runs", settings, stage=stage, name="x", seed=0, tensorboard=False) as run:
        folder = run.folder
    assert main(["train", stage, "--resume", str(folder)]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert repr(setting.partition("=")[2]) in said
    assert "--trust" in said
    assert canary.alive
    with trusting_files():
        assert RunFolder(folder).settings(type(settings)) == settings


@pytest.mark.parametrize("part", ["task", "actor", "critic", "experiment"])
def test_the_files_of_a_doom_training_name_nothing_foreign(canary: Canary, part: str) -> None:
    from reelrl.act.marl import settings as doom_training
    from reelrl.act.marl import yaml_files

    plain = yaml_files.read(yaml_files.SHIPPED[part])
    for place in text_keys(plain):
        yaml = canary.folder / "mine.yaml"
        for text in (CANARY, CANARY.replace(":", ".")) if place[-1].endswith("_class") else (CANARY,):
            yaml.write_text(yaml_text.write(with_value(plain, place, text)))
            with pytest.raises(ConfigError, match="--trust"):
                doom_training.load(**{part: yaml})  # type: ignore[arg-type]
    assert canary.alive


def test_activations_come_from_torch(canary: Canary) -> None:
    from torch import nn

    from reelrl.act.marl.benchmarl.models import VideoPolicyModelConfig
    from reelrl.act.marl.yaml_files import ACTOR

    yaml = canary.folder / "mine.yaml"
    text = ACTOR.read_text()
    yaml.write_text(text.replace("torch.nn.Tanh", "torch.nn.GELU"))
    assert VideoPolicyModelConfig.get_from_yaml(str(yaml)).activation_class is nn.GELU
    yaml.write_text(text.replace("torch.nn.Tanh", "torch.nn.GELUU"))
    with pytest.raises(ConfigError, match="did you mean 'GELU'"):
        VideoPolicyModelConfig.get_from_yaml(str(yaml))


def test_a_scenario_gives_the_engine_no_arguments(tmp_path: Path) -> None:
    from reelrl.act.doom.scenarios import find as scenario

    cfg = scenario.prepare("nine_rooms", tmp_path)
    for line in ("game_args = +logfile /tmp/x", "GameArgs=+logfile /tmp/x", "game_args += +logfile /tmp/x"):
        mine = tmp_path / "mine.cfg"
        mine.write_text(cfg.read_text() + f"\n{line}\n")
        with pytest.raises(ConfigError, match="--trust"):
            scenario.require(str(mine))
        with trusting_files():
            scenario.require(str(mine))


def test_every_command_can_be_told_to_trust(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["clips", "--help"]) == 0
    assert "--trust" in capsys.readouterr().out
