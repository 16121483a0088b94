"""Every rung tried on the same link: what a branch earns is what playing it earns."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from reelrl.agents.ppo import PpoSettings
from reelrl.errors import ConfigError
from reelrl.stream.data.generated_traces import mobile_trace
from reelrl.stream.scalefree.branching import BranchingPolicyGradient
from reelrl.stream.scalefree.network import make_scale_free
from reelrl.stream.scalefree.players import MixedPlayers, State
from reelrl.stream.scalefree.random_videos import random_videos, videos_on
from reelrl.stream.train import AbrTraining

pytestmark = pytest.mark.slow

CPU = torch.device("cpu")
PLAYERS = 2


@pytest.fixture
def players() -> MixedPlayers:
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    links = [mobile_trace(rng, duration_s=60.0) for _ in range(3)]
    short = [(video, worth) for video, worth in zip(*random_videos(rng, 40), strict=True) if video.chunks <= 18]
    videos = videos_on(CPU, [video for video, _ in short], [worth for _, worth in short])
    made = MixedPlayers(links, videos, PLAYERS, CPU, seed=0, noise=0.0)
    made.reset()
    return made


def learner(ahead: int, settings: PpoSettings) -> BranchingPolicyGradient:
    policy = make_scale_free(16, 0, CPU)
    return BranchingPolicyGradient(policy, settings, torch.Generator().manual_seed(0), ahead)


@torch.no_grad()
def test_a_branch_earns_what_playing_it_to_the_end_earns(players: MixedPlayers) -> None:
    learns = learner(18, PpoSettings(discount=1.0))
    rungs = players.videos.present.shape[1]
    returns = learns._returns(players, rungs)
    for player in range(PLAYERS):
        for rung in range(int(players.videos.present[players.state.video[player]].sum())):
            state = State(*(column[player : player + 1] for column in players.state))
            action, total = torch.tensor([rung]), 0.0
            while True:
                state, reward = players.play(state, action, torch.tensor([0.5]))
                total += float(reward)
                if int(state.chunk) >= int(players.videos.chunks[state.video]):
                    break
                action = learns.network.logits(players.seen(state)).argmax(1)  # type: ignore[operator]
            assert float(returns[player, rung]) == pytest.approx(total, rel=1e-4, abs=1e-3)


def test_what_gains_is_liked_more_after_learning(players: MixedPlayers) -> None:
    learns = learner(2, PpoSettings(learning_rate=0.003, epochs=5, minibatches=1))
    found, _, _ = learns.collect(players, *players.reset(), 4)

    @torch.no_grad()
    def gained() -> float:
        shares = learns.network.logits(found.observations.flatten(0, 1)).softmax(-1)  # type: ignore[operator]
        return float((shares * found.gains.flatten(0, 1)).sum(-1).mean())

    before = gained()
    assert before == pytest.approx(0.0, abs=0.01)
    assert all(np.isfinite(list(learns.update(found, 0.0).values())))
    assert gained() > before + 0.05


def test_only_a_scale_free_policy_is_taught_by_branches() -> None:
    with pytest.raises(ConfigError, match="branch = 3 with policy = pensieve"):
        AbrTraining(branch=3)
    with pytest.raises(ConfigError, match="minutes = -1"):
        AbrTraining(minutes=-1)
