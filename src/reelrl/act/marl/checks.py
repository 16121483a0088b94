"""Everything that is wrong with the files of a training, at once and without playing."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl.act.doom.scenarios import find as scenario
from reelrl.act.marl import settings as doom_training
from reelrl.act.marl import yaml_files
from reelrl.act.marl.benchmarl import parts as benchmarl_parts
from reelrl.act.marl.benchmarl import register
from reelrl.act.marl.task_config import DoomTaskConfig
from reelrl.act.video.encoder import read_encoder_settings
from reelrl.errors import ConfigError, ReelError
from reelrl.settings.field_types import read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from reelrl.act.marl.settings import DoomTraining


class Findings:
    """Problems, which stop a training, and notes, which do not; each with the part it is about."""

    def __init__(self) -> None:
        self.problems: list[tuple[str, str]] = []
        self.notes: list[tuple[str, str]] = []

    def attempt(self, part: str, action: Callable[..., Any], *arguments: Any) -> Any:
        """What `action` returns, or None and a problem."""
        try:
            return action(*arguments)
        except (ReelError, ValueError, TypeError) as error:
            text = str(error).removeprefix(f"{part}: ")
            if (part, text) not in self.problems:
                self.problems.append((part, text))
            return None


def check_files(files: Mapping[str, str | Path | None], algorithm_name: str = "mappo") -> Findings:
    """Look into files by part: task, actor, critic, algorithm, experiment; None is the one that ships."""
    findings = Findings()
    register()
    defaults = findings.attempt("algorithm", lambda: doom_training.load(algorithm_name=algorithm_name))
    if defaults is None:
        return findings
    given: dict[str, Any] = {"algorithm_name": algorithm_name}
    for part in yaml_files.SHIPPED:
        path = files.get(part)
        given[part] = getattr(defaults, part) if path is None else findings.attempt(part, yaml_files.read, path)
    readable = {part: value for part, value in given.items() if value is not None}
    _check_task(findings, readable.get("task"))
    for part in ("actor", "critic"):
        _check_model(findings, part, readable.get(part))
    _check_algorithm(findings, algorithm_name, readable.get("algorithm"), readable.get("experiment"))
    if len(readable) == len(given) and not findings.problems:
        _check_together(findings, doom_training.DoomTraining(**given))
    return findings


def _check_task(findings: Findings, given: dict[str, Any] | None) -> None:
    if given is None:
        return
    _check_keys(findings, "task", given, yaml_files.field_names(DoomTaskConfig))
    for key in yaml_files.field_names(DoomTaskConfig):
        if key in given:  # each alone, so that one mistake does not hide the next
            findings.attempt("task", read_settings, DoomTaskConfig, {key: given[key]})
    with tempfile.TemporaryDirectory() as folder:
        name = str(given.get("config_path"))
        findings.attempt("task", scenario.prepare, name, Path(folder), given.get("sides", 1))


def _check_model(findings: Findings, part: str, given: dict[str, Any] | None) -> None:
    if given is None:
        return
    findings.attempt(part, benchmarl_parts.make_model, given, part)
    encoder = given.get("video_encoder_cfg")
    if not isinstance(encoder, dict):
        if "video_encoder_cfg" in given:
            findings.problems.append((part, f"video_encoder_cfg is {encoder!r}; give it a model_type at least"))
        return
    if "model_type" not in encoder:
        findings.problems.append((part, "video_encoder_cfg: key 'model_type' is missing"))
    for key, value in encoder.items():
        findings.attempt(part, read_encoder_settings, {"model_type": "cnn", key: value})


def _check_algorithm(
    findings: Findings, name: str, algorithm: dict[str, Any] | None, experiment: dict[str, Any] | None
) -> None:
    built = None
    if algorithm is not None:
        built = findings.attempt("algorithm", benchmarl_parts.make_algorithm, name, algorithm)
    if experiment is None:
        return
    settings = findings.attempt("experiment", benchmarl_parts.make_experiment, experiment)
    if settings is None or built is None:
        return
    findings.attempt("experiment", settings.validate, built.on_policy())
    findings.attempt("experiment", _check_batch, settings, built.on_policy())


def _check_batch(settings: Any, on_policy: bool) -> None:
    steps, matches = settings.collected_frames_per_batch(on_policy), settings.n_envs_per_worker(on_policy)
    least = settings.train_minibatch_size(on_policy)
    if steps % matches:
        raise ConfigError(f"{steps} steps per batch do not divide among {matches} matches; choose a multiple")
    if on_policy and least > steps:
        raise ConfigError(f"on_policy_minibatch_size is {least}, and there are {steps} steps per batch")
    if on_policy and least < 2:
        raise ConfigError(f"on_policy_minibatch_size is {least}; a gradient of one step is noise")


def _check_together(findings: Findings, settings: DoomTraining) -> None:
    """What only shows when the parts meet: keys and shapes, by building the models; no engine starts."""
    parts = findings.attempt("task", benchmarl_parts.Parts, settings)
    if parts is None:
        return
    specs = findings.attempt("task", _specs, parts.task)
    if specs is None:
        return
    actions = specs["action"]["player", "action"].space.n
    findings.attempt("actor", lambda: _build(parts.actor, specs, actions, central=False))
    central = settings.critic["name"] == "video_central_critic"
    findings.attempt("critic", lambda: _build(parts.critic, specs, 1, central=central))
    if central == (settings.algorithm_name in doom_training.WITHOUT_CENTRAL_CRITIC):
        kind = "sees all agents" if central else "sees one agent"
        findings.problems.append(("critic", f"it {kind}, and {settings.algorithm_name} wants the other kind"))
    _compare(findings, settings)


def _compare(findings: Findings, settings: DoomTraining) -> None:
    for key in ("video_key", "aux_keys"):
        ours, theirs = settings.actor[key], settings.critic[key]
        if ours != theirs:
            findings.notes.append(("critic", f"{key} is {theirs!r}, and the actor's {ours!r}"))
    frozen = [part["video_encoder_cfg"].get("freeze_backbone", False) for part in (settings.actor, settings.critic)]
    if any(frozen) and doom_training.shared_frozen_encoder(settings) is None:
        findings.notes.append(
            ("critic", "actor and critic do not freeze the same encoder, so frozen ones run again in every epoch")
        )


def _specs(task: Any) -> dict[str, Any]:
    from torchrl.envs import Compose, TransformedEnv

    env = task.get_env_fun(num_envs=1, continuous_actions=False, seed=0, device="cpu")()
    transforms = task.get_env_transforms(env)
    env = TransformedEnv(env, Compose(*transforms)) if transforms else env
    return {
        "observation": task.observation_spec(env),
        "action": task.action_spec(env),
        "agents": task.settings.team_size,
    }


def _build(model_config: Any, specs: dict[str, Any], outputs: int, *, central: bool) -> Any:
    from torchrl.data import Composite, Unbounded

    agents = specs["agents"]
    if central:
        output_spec = Composite({"state_value": Unbounded(shape=(1,))})
    else:
        output_spec = Composite({"player": Composite({"out": Unbounded(shape=(agents, outputs))}, shape=(agents,))})
    return model_config.get_model(
        input_spec=Composite({"player": specs["observation"]["player"].clone()}),
        output_spec=output_spec,
        agent_group="player",
        input_has_agent_dim=True,
        n_agents=agents,
        centralised=central,
        share_params=True,
        device="cpu",
        action_spec=specs["action"],
    )


def _check_keys(findings: Findings, part: str, given: Mapping[str, Any], wanted: list[str]) -> None:
    findings.problems += [(part, problem) for problem in yaml_files.key_problems(given, wanted)]
