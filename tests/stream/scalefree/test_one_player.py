"""The scale-free policy in plain numbers decides what it decides in torch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from reelrl.stream.controllers.protocol import EpisodeInfo
from reelrl.stream.data.ladders import Ladder
from reelrl.stream.scalefree.controller import ScaleFree
from reelrl.stream.simulator.env import ABREnv
from tests.stream.helpers import bumpy_ladder, links

TWO = Ladder("two", np.array([200.0, 900.0]), 1.0, chunks=30)
MANY = Ladder("many", np.geomspace(150.0, 20_000.0, 11), 6.0, chunks=20)


@pytest.mark.parametrize(("ladder", "qoe"), [(bumpy_ladder(24), "linear"), (TWO, "log"), (MANY, "scaled")])
def test_scores_are_those_of_the_net_in_torch(ladder: Ladder, qoe: str) -> None:
    batch, one = ScaleFree(), ScaleFree().for_one_player()
    for link in (1, 4, 5):
        env = ABREnv(links(), ladder, qoe=qoe, state="wide", buffer_s=20.0)
        observation, _ = env.reset(seed=0, options={"trace": link})
        episode = EpisodeInfo(env.net_env.video, env.qoe, env.net_env.rule, env.default_quality)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a buffer or a ladder outside what it was trained on
            batch.reset(0, episode)
            one.reset(0, episode)
        ended = False
        while not ended:
            rung = batch.act(observation)
            assert one.act(observation) == rung
            assert one.reason()["preferences"] == pytest.approx(batch.reason()["preferences"], abs=1e-4)
            observation, _, ended, _, _ = env.step(rung)
