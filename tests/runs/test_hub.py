"""`reel push` and `hub:user/name`, against a stand-in of the Hub on this machine: what is sent and what comes back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import yaml

from reelrl.cli.main import main
from reelrl.encode.superblock.learned import load_map_controller
from reelrl.encode.superblock.train import SuperblockTraining
from reelrl.errors import CheckpointError, ConfigError
from reelrl.runs import hub, model_card, policy_file
from reelrl.runs.folder import Run
from reelrl.runs.policy_file import Policy
from tests.runs.hub_stand_in import COMMIT, hub_stand_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.runs.hub_stand_in import HubStandIn

pytest.importorskip("huggingface_hub")


@dataclass(frozen=True)
class Watched:
    source: str


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[HubStandIn]:
    from huggingface_hub import constants

    with hub_stand_in() as (made, address):
        monkeypatch.setenv("HF_TOKEN", "hf_not_a_real_one")
        for name, value in {"ENDPOINT": address, "HF_HUB_CACHE": str(tmp_path / "hf"), "HF_HUB_OFFLINE": False}.items():
            monkeypatch.setattr(constants, name, value)
        template = address + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr("huggingface_hub.file_download.HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        yield made


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A training that is over, with a policy that prefers one offset."""
    layer = (np.zeros((28, 3), np.float32), np.tile(np.eye(7, dtype=np.float32)[5], 4))
    with Run.create(
        tmp_path / "runs", SuperblockTraining(files=("street.y4m",)), stage="superblock", name="x", seed=3
    ) as made:
        made.log_metrics(6, {"eval/reward": 1.25})
        Policy([layer], "tanh", options=(7,) * 4, facts={"state": "naive", "action": "map"}).save(
            made.new_artifact("best_ppo_model.safetensors")
        )
        (made.artifacts / "secret.txt").write_text("not to be sent")
    return made.folder


def test_what_was_pushed_is_the_weights_and_a_card_and_comes_back_as_a_policy(
    stand_in: HubStandIn, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["push", str(run), "somebody/street-map", "--license", "mit", "--private"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == "next   reel evaluate superblock --controllers hub:somebody/street-map"
    sent = stand_in.places["somebody/street-map"]
    assert set(sent) == {"model.safetensors", "README.md"}
    assert stand_in.private == {"somebody/street-map"}
    assert sent["model.safetensors"] == (run / "artifacts" / "best_ppo_model.safetensors").read_bytes()
    _, head, body = sent["README.md"].decode().split("---\n", 2)
    assert yaml.safe_load(head) == {
        "library_name": "reelrl",
        "license": "mit",
        "tags": ["reelrl", "reinforcement-learning", "superblock"],
    }
    for words in ("hub:somebody/street-map", "| seed | 3 |", "| best eval/reward of the training | 1.25 |"):
        assert words in body
    path = policy_file.find("hub:somebody/street-map")
    assert policy_file.load(path).facts["action"] == "map"
    assert policy_file.find(f"hub:somebody/street-map@{COMMIT}").read_bytes() == path.read_bytes()
    controller = load_map_controller("hub:somebody/street-map")
    assert controller.act(np.zeros(3, np.float32)).tolist() == [5] * 4


@pytest.mark.slow
def test_other_kinds_of_weights_are_taken_by_their_readers(stand_in: HubStandIn) -> None:
    from reelrl.encode.target import weights as target
    from reelrl.encode.target.model_file import find_models
    from reelrl.stream.controllers import weights as stream
    from reelrl.stream.playback import load_bitrate_controller

    for name, file in {"target": target.SHIPPED, "ppo": stream.SHIPPED, "any-ladder": stream.SCALE_FREE}.items():
        stand_in.places[f"somebody/{name}"] = {"model.safetensors": file.read_bytes()}
    assert find_models("hub:somebody/target")[0].keys() == find_models(None)[0].keys()
    assert type(load_bitrate_controller("hub:somebody/ppo")).__name__ == "Learned"
    assert type(load_bitrate_controller("hub:somebody/any-ladder")).__name__ == "ScaleFree"


def test_weights_that_were_fetched_once_serve_without_the_hub(
    stand_in: HubStandIn, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["push", str(run), "somebody/street-map"]) == 0
    path = hub.fetched("hub:somebody/street-map")
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    before = list(stand_in.asked)
    assert hub.fetched("hub:somebody/street-map") == path
    assert stand_in.asked == before
    with pytest.raises(CheckpointError, match="the Hub cannot be reached"):
        hub.fetched("hub:somebody/else")


def test_what_the_hub_says_no_to_is_one_line(
    stand_in: HubStandIn, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(CheckpointError, match="no such place"):
        hub.fetched("hub:nobody/nothing")
    stand_in.places["somebody/empty"] = {}
    with pytest.raises(CheckpointError, match=r"there is no model\.safetensors"):
        hub.fetched("hub:somebody/empty")
    with pytest.raises(CheckpointError, match="there is no"):
        hub.fetched("hub:somebody/empty@v9")
    stand_in.refuses = True
    assert main(["push", str(run), "somebody/street-map"]) == 1
    assert "answers 401; log in with `hf auth login`, or set HF_TOKEN" in capsys.readouterr().err


def test_weights_of_any_size_are_refused_before_they_are_fetched(stand_in: HubStandIn) -> None:
    stand_in.places["somebody/huge"] = {"model.safetensors": b"x"}
    stand_in.claimed_size = hub.MOST_BYTES + 1
    with pytest.raises(CheckpointError, match="bytes of weights; up to"):
        hub.fetched("hub:somebody/huge")
    assert not [line for line in stand_in.asked if line.startswith("GET") and "resolve" in line]


def test_weights_that_are_none_are_no_policy(stand_in: HubStandIn) -> None:
    stand_in.places["somebody/pickle"] = {"model.safetensors": b"\x80\x04cos\nsystem\n."}
    with pytest.raises(CheckpointError, match="holds no policy"):
        policy_file.load(policy_file.find("hub:somebody/pickle"))


@pytest.mark.parametrize("place", ["hub:", "hub:name", "hub:../x", "hub:a/b/c", "hub:a/b@", "hub:a/b@-x", "hub:a b/c"])
def test_other_places_are_refused(place: str) -> None:
    with pytest.raises(ConfigError, match="is no place on the Hub"):
        hub.fetched(place)


def test_a_mistyped_place_is_no_module() -> None:
    with pytest.raises(ConfigError, match="'hub:street' is no place on the Hub; write hub:user/name"):
        load_map_controller("hub:street")


def test_a_hub_that_goes_away_after_its_first_answer_cannot_be_reached(
    stand_in: HubStandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub import errors

    def lost(*_: object, **__: object) -> None:
        raise errors.LocalEntryNotFoundError("Connection reset by peer")

    stand_in.places["somebody/far"] = {"model.safetensors": b"x"}
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lost)
    with pytest.raises(CheckpointError, match="the Hub cannot be reached"):
        hub.fetched("hub:somebody/far")


def test_a_dry_run_sends_nothing_and_leaves_both_files(
    stand_in: HubStandIn, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["push", str(run), "somebody/street-map", "--dry-run"]
    assert main([*words, "-o", str(tmp_path / "card"), "--json"]) == 0
    record: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert record["address"] is None
    assert {path.name for path in (tmp_path / "card").iterdir()} == {"model.safetensors", "README.md"}
    assert main(words) == 1
    assert stand_in.asked == []


def test_the_readme_of_a_project_is_not_replaced_by_a_card(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["push", str(run), "somebody/street-map", "--dry-run", "-o", str(tmp_path / "card")]
    assert main(words) == main(words) == 0
    readme = tmp_path / "card" / "README.md"
    readme.write_text("# My project\n")
    assert main(words) == 1
    assert "README.md is there and is no model card of reelrl" in capsys.readouterr().err
    assert readme.read_text() == "# My project\n"


def test_a_card_says_what_its_own_run_watched(tmp_path: Path) -> None:
    with Run.create(tmp_path, Watched("gym:My Game"), stage="autoencoder", name="x", seed=0) as made:
        pass
    assert "reel evaluate autoencoder hub:a/b --source 'gym:My Game'" in model_card.card(made, "a/b")


def test_a_run_that_is_used_by_its_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Run.create(tmp_path, SuperblockTraining(), stage="doom", name="x", seed=0) as made:
        pass
    assert main(["push", str(made.folder), "somebody/team", "--dry-run", "-o", str(tmp_path / "x")]) == 1
    assert "what can be pushed is superblock, minigop, target, abr, autoencoder" in capsys.readouterr().err
