"""No file runs code: a module that leaves a mark when it is imported is named in every place of every kind of file."""

from __future__ import annotations

import dataclasses
import json
import pickle
import sys
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import pytest
from safetensors.numpy import save_file

from reelrl import names
from reelrl.cli.main import main
from reelrl.errors import CheckpointError, ConfigError, ReelError
from reelrl.file_trust import SCHEMES, is_foreign, trusting_files
from reelrl.runs import checkpoint_file
from reelrl.runs.checkpoints import Checkpoints
from reelrl.runs.folder import Run, RunFolder
from reelrl.runs.policy_file import Policy
from reelrl.settings import config, yaml_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

MODULE = "canary_code"
CANARY = f"{MODULE}:Boom"
SOURCE = """
from pathlib import Path
Path(__file__).with_name("ran").write_text("imported")
class Boom:
    privileged = False
    def __init__(self, *args, **kwargs): ...
    def reset(self, *args): ...
    def act(self, *args): return 0.0
"""


class Canary:
    """A folder with a module in it that must not be imported."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / f"{MODULE}.py").write_text(SOURCE)

    @property
    def alive(self) -> bool:
        return not (self.folder / "ran").exists() and MODULE not in sys.modules


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Canary]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield Canary(tmp_path)
    sys.modules.pop(MODULE, None)


def test_words_before_a_colon_that_mean_pictures_are_those_of_the_tables() -> None:
    assert {*names.FEEDS, *names.RECIPES} == SCHEMES


@pytest.mark.parametrize("text", [CANARY, "a.b.c:D", "os:_exit(42)", " os:kill ", "gym:my_pkg.envs:Mine-v0"])
def test_what_the_importer_would_take_is_foreign(text: str) -> None:
    assert is_foreign(text)


@pytest.mark.parametrize(
    "text", ["bba(5,10)", "ale:Breakout", "generated:cuts?frames=3", "gym:CartPole-v1", "cuda:0", "/a/b:c", "16:9", ""]
)
def test_names_sources_and_paths_are_not_foreign(text: str) -> None:
    assert not is_foreign(text)


@pytest.mark.parametrize("table", names.TABLES.values(), ids=names.TABLES)
def test_a_table_is_all_there_is_unless_foreign_names_are_asked_for(canary: Canary, table: dict[str, str]) -> None:
    for look in (names.resolve, names.make, names.known):
        with pytest.raises(ConfigError, match=r"canary_code:Boom.*pass --trust if you wrote this file yourself"):
            look(table, CANARY)
    assert canary.alive
    assert names.resolve(table, CANARY, foreign=True).__module__ == MODULE


def test_trust_ends_with_its_block_and_no_is_no(canary: Canary) -> None:
    with trusting_files(False), pytest.raises(ConfigError):
        names.resolve(names.STATES, CANARY)
    assert canary.alive
    with trusting_files():
        assert names.resolve(names.STATES, CANARY).__name__ == "Boom"
    with pytest.raises(ConfigError, match="--trust"):
        names.resolve(names.STATES, CANARY)


# -- policies ------------------------------------------------------------------------------------------------------


def minigop_policy(path: Path, **facts: Any) -> Path:
    from reelrl.encode.minigop.state import NAMES

    layer = (np.zeros((1, len(NAMES)), np.float32), np.zeros(1, np.float32))
    usual = {"stage": "minigop", "sees": list(NAMES), "base": None, "max_delta": 1.5}
    known = {name: value for name, value in (usual | facts).items() if value is not ...}
    Policy([layer], "relu", low=(-1.0,), high=(1.0,), bounded="tanh", facts=known).save(path)
    return path


def map_policy(path: Path, **facts: Any) -> Path:
    layer = (np.zeros((7, 4), np.float32), np.zeros(7, np.float32))
    Policy([layer], "tanh", options=(7,), facts={"state": "naive", "action": "map", **facts}).save(path)
    return path


@pytest.mark.parametrize("base", [CANARY, f"{CANARY}(3)", "os:_exit(42)"])
def test_a_minigop_policy_corrects_a_controller_of_ours_only(canary: Canary, base: str) -> None:
    from reelrl.encode.minigop.controllers.learned import load_minigop_controller

    path = minigop_policy(canary.folder / "p.safetensors", base=base)
    with pytest.raises(CheckpointError, match=r"p\.safetensors.*--trust"):
        load_minigop_controller(str(path))
    assert canary.alive


def test_a_trusted_policy_may_correct_a_foreign_controller(canary: Canary) -> None:
    from reelrl.encode.minigop.controllers.learned import LearnedMiniGop

    path = minigop_policy(canary.folder / "p.safetensors", base=CANARY)
    with trusting_files():
        assert type(LearnedMiniGop(path).base).__name__ == "Boom"


def test_a_policy_that_corrects_itself_is_refused(tmp_path: Path) -> None:
    from reelrl.encode.minigop.controllers.learned import LearnedMiniGop

    path = minigop_policy(tmp_path / "p.safetensors", base=str(tmp_path / "p.safetensors"))
    with pytest.raises(CheckpointError):
        LearnedMiniGop(path)
    with trusting_files(), pytest.raises(CheckpointError, match="corrects itself"):
        LearnedMiniGop(path)


@pytest.mark.parametrize("wrong", [..., 3, ["rate-model"], "rate-modle", "rate-model(", {"a": 1}])
def test_odd_bases_of_a_policy_are_refused(tmp_path: Path, wrong: Any) -> None:
    from reelrl.encode.minigop.controllers.learned import LearnedMiniGop

    with pytest.raises(CheckpointError, match=r"p\.safetensors"):
        LearnedMiniGop(minigop_policy(tmp_path / "p.safetensors", base=wrong))


@pytest.mark.parametrize("wrong", [..., None, "3", [1.5], True, float("nan"), float("inf"), 10**400])
def test_odd_reaches_of_a_policy_are_refused(tmp_path: Path, wrong: Any) -> None:
    from reelrl.encode.minigop.controllers.learned import LearnedMiniGop

    with pytest.raises(CheckpointError, match=r"p\.safetensors"):
        LearnedMiniGop(minigop_policy(tmp_path / "p.safetensors", max_delta=wrong))


@pytest.mark.parametrize(
    "facts", [{"state": CANARY}, {"state": 3}, {"normalisation": {"mean": [1]}}, {"state": "os:x"}]
)
def test_a_map_policy_sees_states_of_ours_only(canary: Canary, facts: dict[str, Any]) -> None:
    from reelrl.encode.superblock.learned import load_map_controller

    with pytest.raises(CheckpointError, match="cannot be shown what it wants to see"):
        load_map_controller(str(map_policy(canary.folder / "p.safetensors", **facts)))
    assert canary.alive


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    from reelrl.encode.superblock.learned import LearnedMap

    layer = (np.full((7, 4), value, np.float32), np.zeros(7, np.float32))
    Policy([layer], "tanh", options=(7,), facts={"state": "naive"}).save(tmp_path / "p.safetensors")
    with pytest.raises(CheckpointError, match=r"layers\.0\.weight holds (nan|inf) \(28 of 28"):
        LearnedMap(tmp_path / "p.safetensors")


def test_nets_with_weights_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    import torch

    from reelrl.act.location.model.net import CrossEgoVideoLocationNet
    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.settings import AutoEncoderSettings
    from reelrl.see.weights import load_weights, save_weights
    from reelrl.stream.controllers.learned import load_policy, save_policy
    from reelrl.stream.controllers.network import AbrPolicy

    path = tmp_path / "net.safetensors"
    save_file({"x": np.array([np.nan], np.float32)}, path, {"location_net": "{}"})
    with pytest.raises(CheckpointError, match="x is not finite"):
        CrossEgoVideoLocationNet.load(path)
    model, policy = StreamingAutoEncoder(AutoEncoderSettings()), AbrPolicy(3)
    for net in (model, policy):
        with torch.no_grad():
            for weights in net.parameters():
                weights.fill_(torch.nan)
    save_weights(model, path)
    with pytest.raises(CheckpointError, match="not finite"):
        load_weights(model, path)
    save_policy(policy, path, {})
    with pytest.raises(CheckpointError, match="not finite"):
        load_policy(path)


@pytest.mark.parametrize(
    "change",
    [
        {"options": "7"},
        {"options": [0]},
        {"options": [7.5]},
        {"options": [True]},
        {"levels": [float("nan")]},
        {"facts": "none"},
        {"facts": []},
        {"activation": ["tanh"]},
    ],
)
def test_policies_of_odd_shapes_are_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    from reelrl.runs import policy_file

    shape = {"activation": "tanh", "options": [7], "levels": [], "low": [], "high": [], "facts": {}} | change
    tensors = {"layers.0.weight": np.zeros((7, 4), np.float32), "layers.0.bias": np.zeros(7, np.float32)}
    save_file(tensors, tmp_path / "p.safetensors", {"policy": json.dumps(shape)})
    with pytest.raises(CheckpointError, match="holds no policy"):
        policy_file.load(tmp_path / "p.safetensors")


# -- runs and settings ---------------------------------------------------------------------------------------------


def trainings() -> dict[str, Any]:
    """The settings of every train command."""
    from reelrl.act.location.frame_reader.train import FrameReaderTraining
    from reelrl.act.location.train import LocationTraining
    from reelrl.act.marl.assembly import load
    from reelrl.encode.minigop.train import MiniGopTraining
    from reelrl.encode.superblock.train import SuperblockTraining
    from reelrl.see.train import AutoEncoderTraining
    from reelrl.stream.train import AbrTraining

    return {
        "abr": AbrTraining(),
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


@pytest.mark.parametrize("stage", ["abr", "autoencoder", "doom", "frame-reader", "location", "minigop", "superblock"])
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
    from reelrl.act.marl import assembly as doom_training
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

    from reelrl.act.marl.actor import VideoPolicyModelConfig
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


# -- everything else that is read ----------------------------------------------------------------------------------


class Mark:
    """A pickle that imports the canary when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return __import__, (MODULE,)


def test_pickles_are_not_loaded(canary: Canary) -> None:
    import torch

    from reelrl.act.recording.labels import Labels
    from reelrl.see.learner import StreamingAutoEncoder
    from reelrl.see.settings import AutoEncoderSettings
    from reelrl.see.weights import load_weights

    path = canary.folder / "weights.pth"
    for save in (lambda: torch.save({"model": Mark()}, path), lambda: path.write_bytes(pickle.dumps(Mark(), 2))):
        save()
        with pytest.raises(CheckpointError):
            load_weights(StreamingAutoEncoder(AutoEncoderSettings()), path)
        with pytest.raises(CheckpointError):
            checkpoint_file.load(path)
    labels = canary.folder / "labels.npz"
    np.savez(labels, time=np.array([Mark()], object))
    with suppress(ReelError, ValueError):
        Labels.read(labels)
    assert canary.alive


def test_nets_are_made_of_settings_that_name_nothing_foreign(canary: Canary) -> None:
    from reelrl.act.location.model.net import CrossEgoVideoLocationNet
    from reelrl.act.location.model.settings import LocationNetSettings
    from reelrl.see.measures.trained import load_subject
    from reelrl.see.settings import AutoEncoderSettings

    path, one = canary.folder / "net.safetensors", {"x": np.zeros(1, np.float32)}
    load: dict[Any, Callable[[Path], Any]] = {
        LocationNetSettings: CrossEgoVideoLocationNet.load,
        AutoEncoderSettings: partial(load_subject, source="ale:P"),
    }
    for cls, read in load.items():
        hints = get_type_hints(cls)
        for each in dataclasses.fields(cls):
            foreign = {"model_type": CANARY} if dataclasses.is_dataclass(hints[each.name]) else CANARY
            text = yaml_text.write({each.name: foreign})
            save_file(one, path, {"location_net": text, "settings": text})
            with pytest.raises(ReelError, match="--trust"):
                read(path)
    assert canary.alive


def documents() -> list[Any]:
    """JSON full of foreign names, in the shapes that readers look for."""
    keys = (
        "schema",
        "settings",
        "maps",
        "matches",
        "files",
        "clips",
        "points",
        "rows",
        "facts",
        "inputs",
        "weights",
        "segments",
        "rungs",
        "pictures",
        "name",
        "places",
        "walls",
        "scenario",
        "mg",
        "session",
        "state",
        "step",
    )
    flat = dict.fromkeys(keys, CANARY)
    return [
        CANARY,
        [CANARY],
        flat,
        {**flat, "schema": 1},
        {**flat, "schema": 2},
        [flat],
        {key: [flat] for key in keys} | {"schema": 1},
    ]


def test_no_json_that_we_read_imports_anything(canary: Canary) -> None:
    from reelrl.act.recording.manifest import Manifest
    from reelrl.act.recording.maps import MapPlan
    from reelrl.encode.handshake.folder import HandshakeFolder
    from reelrl.encode.handshake.messages import file_name
    from reelrl.encode.minigop.controllers.imitation import Imitation
    from reelrl.encode.minigop.evaluation.baseline import read_baseline
    from reelrl.see.race.results import Results
    from reelrl.stream.data.ladders import read_ladder
    from reelrl.stream.data.traces import read_trace

    path = canary.folder / "manifest.json"
    readers: dict[str, Callable[[], Any]] = {
        "match manifest": lambda: Manifest.read(canary.folder),
        "map": lambda: MapPlan.from_json(path.read_text(), path),
        "imitation": lambda: Imitation.load(path),
        "results": lambda: Results(path, {}),
        "baseline": lambda: read_baseline(path),
        "ladder": lambda: read_ladder(path),
        "trace": lambda: read_trace(path),
        "handshake": lambda: HandshakeFolder(canary.folder).read(0, "rq", final=True),
    }
    for document in documents():
        path.write_text(json.dumps(document))
        (canary.folder / file_name(0, "rq")).write_text(json.dumps(document))
        for kind, read in readers.items():
            with suppress(ReelError):
                read()
            assert canary.alive, kind


def test_a_fitted_map_imports_nothing(canary: Canary) -> None:
    from reelrl.encode.superblock.fit import FORMAT, MapPolicy
    from tests.encode.makers import scene

    path = canary.folder / "map.yaml"
    for line in (
        f"!!python/name:{MODULE}.Boom",
        f"!!python/object/apply:{MODULE}.Boom []",
        f"!!python/module:{MODULE}",
    ):
        path.write_text(f"format: {FORMAT}\nweights: {line}\n")
        with pytest.raises(ReelError):
            MapPolicy.load(path)
    path.write_text(f"format: {FORMAT}\nweights: {{variance: 1}}\nimportance: {CANARY}\n")
    with pytest.raises(ReelError):
        MapPolicy.load(path).maps_of_clip(scene(frames=2), 40)
    assert canary.alive


def test_a_recorded_episode_is_replayed_by_encoders_of_ours_only(canary: Canary) -> None:
    from reelrl.encode.minigop import record as minigop_record
    from reelrl.encode.record import SCHEMA
    from reelrl.encode.superblock import record as superblock_record
    from tests.encode.makers import scene

    clip = scene(frames=2)
    record = {"schema": SCHEMA, "clip": {"hash": clip.content_hash}, "encoder": {"backend": CANARY}, "sent_qps": []}
    for module in (superblock_record, minigop_record):
        with pytest.raises(ConfigError, match=r"backend is 'canary_code:Boom'.*--trust"):
            module.replay(record, clip)
    assert canary.alive


def test_checkpoints_hold_text_that_nobody_runs(canary: Canary) -> None:
    saved = Checkpoints(canary.folder / "c")
    saved.save(3, {"a": np.zeros(1)}, {"learner": CANARY, "logs": {}}, config=f"base: {CANARY}\n")
    found = saved.latest()
    assert found is not None
    assert found.state["learner"] == CANARY
    checkpoint_file.save(canary.folder / "c.pt", 3, {"a": np.zeros(1)}, {"learner": CANARY})
    assert checkpoint_file.load(canary.folder / "c.pt").state["learner"] == CANARY
    assert canary.alive
