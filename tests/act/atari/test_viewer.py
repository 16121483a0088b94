"""The live page of a player: what it tells a browser, that looking changes nothing, and that nobody need look."""

from __future__ import annotations

import base64
import os
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from reelrl.act.atari.players import PlayerMoments, StreamingPlayers
from reelrl.act.atari.settings import PlayerNetSettings, PlayerSettings
from reelrl.act.atari.viewer import BUTTONS, PlayerViewer
from reelrl.content.games.kinds import GameFacts, Moment
from tests.browser import PROGRAM, Chromium
from tests.see.monitor.test_viewer import Client
from tests.waiting import until

SETTINGS = PlayerSettings(size=16, stack=2, net=PlayerNetSettings(pixel_layers=((3, 4, 2),), hidden=(8,), sparsity=0.5))


def played(settings: PlayerSettings) -> tuple[StreamingPlayers, Moment, int]:
    """A player a few moments into a game, the last of them, and what it chose."""
    players, rng = StreamingPlayers(settings, GameFacts(18, 0)), np.random.default_rng(0)
    for step in range(4):
        picture = rng.integers(0, 256, (21, 16, 3), dtype=np.uint8)
        moment = Moment(picture, np.zeros(0, np.float32), 1.0)
        actions = players.step(PlayerMoments.of([moment], [step == 0]), rng.random((1, 2))).actions
    return players, moment, actions[0]


def show(viewer: PlayerViewer, *offer: Any) -> None:
    """Offer a moment until somebody looks."""

    def offered() -> bool:
        viewer.offer(*offer)
        return viewer._next_s > 0

    until(offered)


@pytest.mark.parametrize("algorithm", ["q", "actor-critic"])
def test_a_browser_is_told_what_each_action_is_worth_and_where_the_player_looks(algorithm: Any) -> None:
    players, moment, action = played(replace(SETTINGS, algorithm=algorithm))
    before = players.training_state()
    with PlayerViewer("ale:Breakout", 1000, port=0) as viewer:
        viewer.offer(4, moment._replace(truncated=True), players, action, 7.0)  # nobody looks; the return is kept
        client = Client(viewer.url)
        show(viewer, 5, moment, players, action, 3.0)
        news = client.listen()
        client.close()
    assert (news["frame"], news["earned"], news["action"], news["returns"]) == (5, 3.0, action, [[4, 7.0]])
    assert news["names"] == list(BUTTONS)
    assert len(set(news["names"])) == 18
    parts = players.observer.parts()
    assert news["preferences"] == pytest.approx(players.learner.preferences(parts)[0].tolist())
    if algorithm == "actor-critic":
        assert sum(news["preferences"]) == pytest.approx(1)
    assert all(base64.b64decode(picture.partition(",")[2])[1:4] == b"PNG" for picture in news["pictures"].values())
    assert news["pictures"].keys() == {"picture", "saliency"}
    after = players.training_state()
    assert all(torch.equal(torch.as_tensor(after[name]), torch.as_tensor(before[name])) for name in before)


def test_where_it_looks_is_where_the_worth_of_the_best_action_changes() -> None:
    players, _, _ = played(SETTINGS)
    _, saliency = players.look()
    assert saliency is not None
    assert saliency.shape == (16, 16)
    parts = players.observer.parts()
    base = players.learner.preferences(parts).max().item()
    changed = np.zeros((16, 16))
    for row, column in np.ndindex(16, 16):
        for channel in range(2):
            moved = parts["pixels"].clone()
            moved[0, channel, row, column] += 1e-2
            changed[row, column] += abs(players.learner.preferences({"pixels": moved}).max().item() - base)
    assert np.corrcoef(changed.ravel(), saliency.ravel())[0, 1] > 0.98


@pytest.mark.browser
@pytest.mark.skipif(not PROGRAM and not os.environ.get("CI"), reason="no Chromium here")
def test_the_page_shows_it() -> None:
    players, moment, action = played(SETTINGS)
    with PlayerViewer("ale:Breakout", 1000, port=0) as viewer, Chromium(1280, 1000) as browser:
        browser.open(viewer.url)
        show(viewer, 9, moment, players, action, 3.0)
        browser.wait_for("document.getElementById('frame').textContent === '9'")
        browser.wait_for("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
        assert browser.evaluate("document.querySelectorAll('#actions i.chosen').length") == 1
        assert browser.evaluate("document.documentElement.scrollWidth") == 1280
        viewer.close("done")
        browser.wait_for("document.getElementById('state').textContent === 'done'")
        assert browser.errors == []
