"""Pictures of a Doom game for learners that watch: "doom:nine_rooms", or any scenario by name or path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl import seeding
from reelrl.act.doom.env import ACTIONS, VizDoomCoopParallelEnv
from reelrl.act.doom.settings import VZCoopConfig
from reelrl.content.atari import FRAME_SKIP
from reelrl.content.feeds.kinds import START, Position, Shot, episodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reelrl.content.pictures import Picture


class DoomFeed:
    """What one player sees who presses random buttons, four tics to a picture."""

    def __init__(self, subject: str, seed: int = 0) -> None:
        self.scenario, self.seed = subject, seed
        settings = VZCoopConfig(config_path=subject, num_players=1, skip=FRAME_SKIP)
        self._env = VizDoomCoopParallelEnv(settings, channels_last=True)
        next(self._play(0))  # what cannot be played is told at once

    def shots(self, start: Position = START) -> Iterator[Shot]:
        return episodes(self._play, start)

    def _play(self, episode: int) -> Iterator[Picture]:
        # Each episode is seeded, and so plays in an engine of its own: it depends on nothing before it.
        env = self._env
        observations, _ = env.reset(seed=seeding.seed_for(self.seed, "feed", self.scenario, episode))
        chance = seeding.stream(self.seed, "feed", self.scenario, episode)
        yield observations["player_0"]
        while env.agents:
            yield env.step({"player_0": int(chance.integers(len(ACTIONS)))})[0]["player_0"]
