"""No file runs code: a module that leaves a mark when it is imported is named in every kind of file; settings apart."""

from __future__ import annotations

import dataclasses
import json
import pickle
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
import pytest
from safetensors.numpy import save_file

from reelrl import names
from reelrl.errors import CheckpointError, ConfigError, ReelError
from reelrl.file_trust import SCHEMES, is_foreign, trusting_files
from reelrl.runs import checkpoint_file
from reelrl.runs.checkpoints import Checkpoints
from reelrl.runs.policy_file import Policy
from reelrl.settings import yaml_text
from tests.canary import CANARY, MODULE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.canary import Canary


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
    from reelrl.act.views.net import ViewNet, ViewNetSettings
    from reelrl.see.measures.trained import load_trained
    from reelrl.see.settings import AutoEncoderSettings

    path, one = canary.folder / "net.safetensors", {"x": np.zeros(1, np.float32)}
    load: dict[Any, Callable[[Path], Any]] = {
        LocationNetSettings: CrossEgoVideoLocationNet.load,
        ViewNetSettings: ViewNet.load,
        AutoEncoderSettings: partial(load_trained, source="ale:P"),
    }
    for cls, read in load.items():
        hints = get_type_hints(cls)
        for each in dataclasses.fields(cls):
            foreign = {"model_type": CANARY} if dataclasses.is_dataclass(hints[each.name]) else CANARY
            text = yaml_text.write({each.name: foreign})
            save_file(one, path, {"location_net": text, "view_net": text, "settings": text})
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
    from reelrl.encode.superblock.map_policy import FORMAT, MapPolicy
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
