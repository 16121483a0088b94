"""The YAML files that ship, and what is said of files that are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml
from benchmarl.algorithms import MappoConfig
from benchmarl.experiment import ExperimentConfig

from reelrl.act.marl import settings as doom_training
from reelrl.act.marl import yaml_files
from reelrl.act.marl.benchmarl import register
from reelrl.act.marl.benchmarl.models import VideoCentralCriticModelConfig, VideoPolicyModelConfig
from reelrl.act.marl.benchmarl.task import DoomPettingZooTask
from reelrl.act.marl.checks import check_files
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

CLASSES: dict[str, type] = {
    "task": DoomTaskConfig,
    "actor": VideoPolicyModelConfig,
    "critic": VideoCentralCriticModelConfig,
    "algorithm": MappoConfig,
    "experiment": ExperimentConfig,
}


def test_every_file_that_ships_is_one_of_the_five_or_the_actor_of_who_is_taught() -> None:
    assert set(yaml_files.CONF.rglob("*.yaml")) == {*yaml_files.SHIPPED.values(), yaml_files.TAUGHT_ACTOR}
    assert yaml_files.read(yaml_files.TAUGHT_ACTOR).keys() == yaml_files.read(yaml_files.ACTOR).keys()


@pytest.mark.parametrize("part", CLASSES)
def test_keys_are_the_fields_of_the_dataclass(part: str) -> None:
    keys = set(yaml_files.read(yaml_files.SHIPPED[part])) - {"name"}
    assert keys == set(yaml_files.field_names(CLASSES[part]))


@pytest.mark.parametrize("part", CLASSES)
def test_benchmarl_reads_the_files_as_we_do(part: str) -> None:
    """Its reader follows YAML 1.1, where 3e-4 is text."""
    theirs = yaml.safe_load(yaml_files.SHIPPED[part].read_text())
    assert theirs == yaml_files.read(yaml_files.SHIPPED[part])


def test_the_preset_is_what_the_manual_says() -> None:
    training = doom_training.load()
    assert (training.algorithm["clip_epsilon"], training.algorithm["lmbda"]) == (0.2, 0.95)
    assert training.algorithm["entropy_coef"] == 0.01
    assert (training.experiment["gamma"], training.experiment["lr"]) == (0.99, 3e-4)
    assert training.experiment["on_policy_minibatch_size"] >= 100


def written(tmp_path: Path, part: str, **changes: Any) -> Path:
    """A shipped file with other values; None removes the key."""
    values = yaml_files.read(yaml_files.SHIPPED[part]) | changes
    path = tmp_path / f"{part}.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in values.items() if value != "REMOVED"}))
    return path


def test_a_task_from_a_file_names_the_key_that_is_wrong(tmp_path: Path) -> None:
    member: Any = DoomPettingZooTask.DOOM_PZ
    with pytest.raises(ConfigError, match="unknown key 'skipp'; did you mean 'skip'"):
        member.get_from_yaml(written(tmp_path, "task", skipp=4))
    with pytest.raises(ConfigError, match="key 'max_steps' is missing"):
        member.get_from_yaml(written(tmp_path, "task", max_steps="REMOVED"))


@pytest.mark.parametrize("config", [VideoPolicyModelConfig, VideoCentralCriticModelConfig])
def test_a_model_from_a_file_names_the_key_that_is_wrong(config: Any, tmp_path: Path) -> None:
    part = "actor" if config is VideoPolicyModelConfig else "critic"
    with pytest.raises(ConfigError, match="unknown key 'drop_out'; did you mean 'dropout'"):
        config.get_from_yaml(written(tmp_path, part, drop_out=0.1))
    with pytest.raises(ConfigError, match="key 'video_key' is missing"):
        config.get_from_yaml(written(tmp_path, part, video_key="REMOVED"))
    with pytest.raises(ConfigError, match=r"activation_class is 'torch.nn.Tank'"):
        config.get_from_yaml(written(tmp_path, part, activation_class="torch.nn.Tank"))


def test_names_are_registered_with_benchmarl() -> None:
    from benchmarl.environments import task_config_registry
    from benchmarl.models import model_config_registry

    register()
    assert task_config_registry["doom_pettingzoo/doom_pz"] is DoomPettingZooTask.DOOM_PZ
    assert model_config_registry["video_policy"] is VideoPolicyModelConfig


def test_nothing_is_wrong_with_what_ships() -> None:
    findings = check_files({})
    assert (findings.problems, findings.notes) == ([], [])


def test_all_problems_are_listed_at_once(tmp_path: Path) -> None:
    findings = check_files({
        "task": written(tmp_path, "task", skip=0, config_path="nowhere", aux_observation=[]),
        "actor": written(tmp_path, "actor", video_encoder_cfg={"model_type": "cn", "embed_dim": -1}),
        "critic": tmp_path / "absent.yaml",
        "experiment": written(tmp_path, "experiment", evaluation_interval=1234, lr="REMOVED"),
    })  # fmt: skip
    told = "\n".join(f"{part}: {text}" for part, text in findings.problems)
    for words in (
        "task: unknown key 'aux_observation'", "task: skip is 0", "task: there is no scenario 'nowhere'",
        "actor: video_encoder_cfg: unknown", "actor: video_encoder_cfg: embed_dim is -1", "critic: ", "absent.yaml",
        "experiment: key 'lr' is missing",
    ):  # fmt: skip
        assert words in told


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("actor", {"video_key": "pixels"}, "actor: video_key names 'pixels'"),
        ("critic", {"aux_keys": ["health"]}, "critic: aux_keys names 'health'"),
        ("task", {"observation_size": [9, 9]}, "actor: pictures of 9 x 9 are too small"),
        ("critic", {"fusion": "sum"}, "critic: fusion is 'sum'"),
        ("experiment", {"on_policy_minibatch_size": 1}, "experiment: on_policy_minibatch_size is 1"),
        ("experiment", {"checkpoint_interval": 77}, "experiment: checkpoint_interval"),
    ],
)
def test_parts_that_do_not_fit_together_are_told(
    part: str, changes: dict[str, Any], message: str, tmp_path: Path
) -> None:
    findings = check_files({part: written(tmp_path, part, **changes)})
    assert any(f"{where}: {text}".startswith(message) for where, text in findings.problems), findings.problems


def test_frozen_in_one_model_only_is_a_note(tmp_path: Path) -> None:
    frozen = written(tmp_path, "actor", video_encoder_cfg={"model_type": "cnn", "freeze_backbone": True})
    findings = check_files({"actor": frozen})
    assert not findings.problems
    assert "do not freeze the same encoder" in findings.notes[0][1]
