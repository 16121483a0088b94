"""A policy is settled by playing both rungs that it hesitates between: what it learns from is what sessions earn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.cli.main import main
from reelrl.errors import ConfigError
from reelrl.stream.fit.branches import UNDECIDED, branches, settle
from reelrl.stream.playback import load_bitrate_controller
from reelrl.stream.scalefree.controller import ScaleFree, ScaleFreePensieve
from reelrl.stream.scalefree.network import make_scale_free
from reelrl.stream.scalefree.players import MixedPlayers
from reelrl.stream.scalefree.random_videos import videos_on
from reelrl.stream.scalefree.validation import Sessions, begin
from tests.stream.helpers import bumpy_ladder, links

if TYPE_CHECKING:
    from pathlib import Path

    from torch import Tensor

    from reelrl.stream.data.ladders import Video
    from reelrl.stream.scalefree.network import ScaleFreePolicy

SESSIONS, CHUNKS = 6, 9


def simulator() -> MixedPlayers:
    video = bumpy_ladder(CHUNKS).video()
    worth = video.bitrates_kbps / video.bitrates_kbps[-1]
    return MixedPlayers(links(SESSIONS), videos_on("cpu", [video], [worth]), 1, "cpu", 0, noise=0.0)


def sessions() -> Sessions:
    each, ones = torch.arange(SESSIONS), torch.ones(SESSIONS, dtype=torch.float64)
    return Sessions(each, torch.zeros_like(each), ones, 60.0 * ones)


@torch.no_grad()
def earned(policy: ScaleFreePolicy, other_at: int | None = None) -> tuple[Tensor, Tensor]:
    """What each session earns in all if everyone takes the second rung at this chunk, and who was undecided then."""
    players = simulator()
    state = begin(players, sessions(), 0.0)
    total, torn = torch.zeros(SESSIONS), torch.zeros(SESSIONS, dtype=torch.bool)
    for chunk in range(CHUNKS - 1):
        scores = policy.logits(players.observe(state)[0])
        best, rungs = scores.topk(2, dim=1)
        if chunk == other_at:
            torn = torch.sigmoid(best[:, 1] - best[:, 0]) > UNDECIDED
        state, rewards = players.play(state, rungs[:, int(chunk == other_at)], torch.full((SESSIONS,), 0.5))
        total += rewards
    return total, torn


def test_a_branch_is_worth_what_its_session_would_have_earned_more() -> None:
    policy = ScaleFreePensieve().policy
    as_it_is, _ = earned(policy)
    wanted = []
    for chunk in range(CHUNKS - 1):
        otherwise, torn = earned(policy, chunk)
        wanted.append((otherwise - as_it_is)[torn])
    found = branches(policy, simulator(), sessions())
    assert len(found.gain) > 3
    assert (found.chosen != found.other).all()
    torch.testing.assert_close(found.gain, torch.cat(wanted), atol=1e-4, rtol=1e-4)


def settled(policy: ScaleFreePolicy, video: Video) -> int:
    heard: list[int] = []
    learned = settle(
        policy, links(SESSIONS), video, rounds=15, players=48, epochs=2, rate=1e-3, seed=1, moved=heard.append
    )
    assert learned == sum(heard)
    return learned


def test_a_policy_settled_on_some_links_earns_more_there() -> None:
    policy = ScaleFreePensieve().policy
    before, _ = earned(policy)
    assert settled(policy, bumpy_ladder(CHUNKS).video()) > 0
    assert float(earned(policy)[0].mean()) > float(before.mean()) + 0.2


def test_there_must_be_a_chunk_to_choose() -> None:
    with pytest.raises(ConfigError, match="1 chunk; give 2 or more"):
        settled(make_scale_free(16, 3, torch.device("cpu")), bumpy_ladder(1).video())


def test_settling_is_a_command_and_depends_on_its_seed_only(tmp_path: Path) -> None:
    few = ["--links", "4", "--rounds", "1", "--players", "8"]
    for name in ("one", "again"):
        assert main(["fit", "abr", "scalefree", "-o", str(tmp_path / f"{name}.safetensors"), *few]) == 0
    one, again = (ScaleFree(path=tmp_path / f"{name}.safetensors") for name in ("one", "again"))
    first = ScaleFreePensieve()
    assert one.facts["start"] == "scalefree-pensieve"
    for name, weights in one.policy.actor.state_dict().items():
        np.testing.assert_array_equal(weights, again.policy.actor.state_dict()[name])
    assert any(
        not torch.equal(weights, first.policy.actor.state_dict()[name])
        for name, weights in one.policy.actor.state_dict().items()
    )
    assert isinstance(load_bitrate_controller(str(tmp_path / "one.safetensors")), ScaleFree)


def test_what_has_no_second_rung_to_try_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "settled.safetensors"
    assert main(["fit", "abr", "scalefree", "-o", str(file), "--start", "robustmpc"]) == 1
    assert "robustmpc is no scale-free policy" in capsys.readouterr().err
    assert not file.exists()
