"""A team in one file: it plays as the training's actor did, and loading it runs no code."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.act.doom.saved_teams import NetTeam, open_team
from reelrl.act.doom.scenarios import find
from reelrl.act.doom.team_net import FILE, TeamNet, TeamSettings, not_plain
from reelrl.act.doom.weights import SHIPPED
from reelrl.act.marl import yaml_files
from reelrl.errors import CheckpointError, ConfigError, ReelError, RunError

if TYPE_CHECKING:
    from pathlib import Path

TASK, ACTOR = yaml_files.read(yaml_files.TASK), yaml_files.read(yaml_files.ACTOR)


def small_net(**actor: object) -> TeamNet:
    torch.manual_seed(0)
    return TeamNet(TeamSettings(task=TASK, actor={**ACTOR, **actor}, step=7)).eval()


def test_a_file_has_the_net_and_its_match(tmp_path: Path) -> None:
    net = small_net()
    net.save(tmp_path / FILE)
    saved = open_team(tmp_path / FILE)
    assert (saved.task, saved.step, saved.seed) == (TASK, 7, None)
    height, width = TASK["observation_size"]
    views = torch.randint(0, 256, (2, TASK["frame_stack"], 3, height, width), dtype=torch.uint8)
    with torch.no_grad():
        assert torch.equal(saved.net(views), net(views))


def test_players_draw_by_the_seed_and_the_greedy_never_differ(tmp_path: Path) -> None:
    small_net().save(tmp_path / FILE)
    height, width = TASK["observation_size"]
    views = np.random.default_rng(0).integers(0, 256, (40, TASK["frame_stack"], 3, height, width), np.uint8)
    seen = {f"player_{number}": view for number, view in enumerate(views)}

    def acts(seed: int, *, greedy: bool = False) -> dict[str, int]:
        team = open_team(tmp_path / FILE).team(greedy=greedy)
        assert isinstance(team, NetTeam)
        team.reset(seed)
        return team.act(seen)

    assert acts(1) == acts(1) != acts(2)
    assert acts(1, greedy=True) == acts(2, greedy=True)


def test_a_team_ships_for_every_scenario_of_one_team_that_needs_eyes() -> None:
    of_one_side = {name: module for name, module in find.OURS.items() if not hasattr(module, "SIDES")}
    assert set(SHIPPED) == {name for name, module in of_one_side.items() if hasattr(module, "REWARDS")}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_team_that_ships_plays_the_scenario_that_it_is_called_by(name: str) -> None:
    saved = open_team(name)
    assert saved.task["config_path"] == name
    assert saved.step == saved.net.settings.taught_steps > 30_000
    height, width = saved.task["observation_size"]
    views = np.zeros((saved.task["num_players"], saved.task["frame_stack"], 3, height, width), np.uint8)
    acted = saved.team(greedy=True).act(dict(enumerate(views)))  # type: ignore[arg-type]
    assert len(set(acted.values())) == 1  # all players are one net, and see the same


@pytest.mark.parametrize(
    "wrong",
    [
        {"activation_class": "os.system"},
        {"video_encoder_cfg": {"model_type": "my_pkg.mine:Encoder"}},
        {"video_encoder_cfg": {"model_type": "effnet-lite0", "freeze_backbone": True}},
        {"aux_keys": ["ammo"]},
    ],
)
def test_an_actor_that_is_no_plain_net_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ReelError):
        small_net(**wrong)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="holds no team"):
        open_team(tmp_path / FILE)
    with pytest.raises(CheckpointError, match="cannot read"):
        open_team(tmp_path / "none.safetensors")
    with pytest.raises(ReelError, match="nowhere"):
        open_team("nowhere")
    with pytest.raises(RunError, match="no team 'gaet': no run, no file; did you mean 'gate'"):
        open_team("gaet")
    with pytest.raises(RunError, match="no run at runs/0099"):
        open_team("runs/0099")


def test_why_an_actor_has_no_file_of_its_own_is_told() -> None:
    assert not not_plain(ACTOR)
    assert "aux_keys = ['ammo']" in not_plain({**ACTOR, "aux_keys": ["ammo"]})
    assert "effnet-lite0" in not_plain({**ACTOR, "video_encoder_cfg": {"model_type": "effnet-lite0"}})
    with pytest.raises(ConfigError, match="aux_keys"):
        TeamNet(replace(small_net().settings, actor={**ACTOR, "aux_keys": ["ammo"]}))
