"""A player in a run folder: it learns, goes on to the same bits, and keeps what it learned when its game fails."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from reelrl.act.atari.evaluate import CHANCE, play_all, summarise
from reelrl.act.atari.settings import AtariTraining, PlayerNetSettings, PlayerSettings
from reelrl.act.atari.train import AtariTrainer
from reelrl.errors import CheckpointError, ContentError, InvalidRewardError, InvalidStateError
from reelrl.file_trust import trusting_files
from reelrl.runs.folder import Run, RunFolder
from reelrl.see.settings import AutoEncoderSettings
from tests.content.games.corridor import corridor
from tests.runs.outcome import outcome

if TYPE_CHECKING:
    from pathlib import Path

TINY = PlayerSettings(
    observation="numbers",
    epsilon_frames=20,
    size=12,
    net=PlayerNetSettings(pixel_layers=((2, 4, 4),), embedding_layers=((2, 5, 4),), hidden=(8,), sparsity=0.5),
    autoencoder=AutoEncoderSettings(widths=((2, 2), (2, 2), (2, 2))),
)
SETTINGS = AtariTraining(source=corridor(), frames=40, log_every=7, save_every=11, keep_checkpoints=9, player=TINY)


def train(root: Path, settings: AtariTraining, seed: int = 0) -> Path:
    with (
        Run.create(root, settings, stage="atari", name="test", seed=seed) as run,
        AtariTrainer(settings, seed, run) as trainer,
    ):
        trainer.train(lambda _: None)
        return run.folder


def go_on(folder: Path, settings: AtariTraining, seed: int = 0) -> None:
    with Run.open(folder) as run, AtariTrainer(settings, seed, run) as trainer:
        assert trainer.resume()
        trainer.train(lambda _: None)


def of(algorithm: Any, observation: Any, source: str, frames: int) -> AtariTraining:
    player = replace(TINY, algorithm=algorithm, observation=observation)
    return replace(SETTINGS, source=source, frames=frames, player=player)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        of("q", "numbers", corridor(), 40),
        of("actor-critic", "numbers", corridor(), 40),
        of("q", "pixels", "ale:Breakout", 12),
        pytest.param(of("actor-critic", "both", "ale:Breakout", 9), marks=pytest.mark.long),
        pytest.param(of("q", "embedding", corridor(), 9), marks=pytest.mark.long),
    ],
    ids=lambda settings: f"{settings.player.algorithm}-{settings.player.observation}",
)
def test_half_and_resume_and_half_is_the_whole(run_root: Path, settings: AtariTraining) -> None:
    half = replace(settings, frames=settings.frames // 2 + 1)  # neither a window's end nor an episode's
    once = train(run_root, settings)
    twice = train(run_root, half)
    go_on(twice, settings)
    assert outcome(RunFolder(once)) == outcome(RunFolder(twice))
    other = train(run_root, settings, seed=1)
    assert outcome(RunFolder(other)) != outcome(RunFolder(once))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "frames", "least"),
    [("q", 1800, 45.0), pytest.param("actor-critic", 1800, 45.0, marks=pytest.mark.long)],
)
def test_it_learns_to_balance_a_pole(run_root: Path, algorithm: Any, frames: int, least: float) -> None:
    """Chance balances it for 22 steps."""
    net = PlayerNetSettings(hidden=(64, 64))
    player = PlayerSettings(algorithm=algorithm, observation="numbers", epsilon_frames=frames // 2, net=net)
    settings = AtariTraining(source="gym:CartPole-v1", frames=frames, player=player)
    folder = train(run_root, settings)
    returns = [record["return"] for record in RunFolder(folder).episodes()]
    early, late = sum(returns[:10]) / 10, sum(returns[-10:]) / 10
    assert early < 45
    assert late > least


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "error"),
    [("dies", ContentError), ("raises", ContentError), ("nan", InvalidRewardError), ("lost", InvalidStateError)],
)
def test_what_was_learned_is_kept_when_the_game_fails(run_root: Path, fault: str, error: type[Exception]) -> None:
    settings = replace(SETTINGS, source=corridor(fault), frames=500, save_every=1000)
    with (
        Run.create(run_root, settings, stage="atari", name="test", seed=0) as run,
        AtariTrainer(settings, 0, run) as trainer,
    ):
        with pytest.raises(error):
            trainer.train(lambda _: None)
        saved = run.checkpoints.latest()
    assert saved is not None
    assert saved.step == trainer.frames_done >= 3
    with Run.open(run.folder) as again, AtariTrainer(settings, 0, again) as trainer:
        assert trainer.resume()
        with pytest.raises(error):  # it fails at the same place, which it comes back to
            trainer.train(lambda _: None)
        assert trainer.frames_done == saved.step


@pytest.mark.slow
def test_a_checkpoint_of_other_settings_is_refused(run_root: Path) -> None:
    folder = train(run_root, replace(SETTINGS, frames=5))
    other = replace(SETTINGS, player=replace(TINY, algorithm="actor-critic"))
    with (
        Run.open(folder) as run,
        AtariTrainer(other, 0, run) as trainer,
        pytest.raises(CheckpointError, match="does not fit this player"),
    ):
        trainer.resume()


@pytest.mark.slow
def test_trained_players_are_judged_in_the_same_episodes_as_chance(run_root: Path) -> None:
    player = replace(TINY, epsilon_frames=300, epsilon=(1.0, 0.0))
    run = str(train(run_root, replace(SETTINGS, frames=600, player=player)))
    with trusting_files(True):  # the corridor is code of this test's own
        scores = play_all([CHANCE, run], run, 6, seed=0)
        again = play_all([CHANCE, run], run, 3, seed=0)
    assert again == scores[:6]
    chance, trained = summarise(scores)
    assert (chance.episodes, trained.episodes) == (6, 6)
    assert trained.returns.mean == 1.0 > chance.returns.mean
