"""One game, one player, one run folder: watched, stopped, continued to the same bits.

with AtariTrainer(settings, seed, run, device="cpu") as trainer:
    trainer.resume()               # to the newest checkpoint, if there is one
    trainer.train(on_frame)        # raises Interrupted after Ctrl+C

A checkpoint holds the player, its chance, the half-filled window of metrics.jsonl and the actions of the episode under
way, which are taken again to come back to its place.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from reelrl import seeding
from reelrl.act.atari.players import FIGURES, PlayerMoments, StepResult, StreamingPlayers
from reelrl.content.games.play import Play
from reelrl.content.games.process import GameProcess
from reelrl.errors import ContentError, InvalidRewardError, InvalidStateError
from reelrl.runs.checkpoints import Checkpoints, restoring
from reelrl.runs.progress import spaced
from reelrl.runs.saving import Saving
from reelrl.see.monitor.performance import FIGURES as PICTURE_FIGURES
from reelrl.see.monitor.performance import PerformanceMonitor, TensorBoardLogger, figures_of
from reelrl.see.monitor.windows import MeanWindow
from reelrl.see.train import WEIGHTS, tensors_below
from reelrl.see.weights import save_weights

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from reelrl.act.atari.settings import AtariTraining
    from reelrl.act.atari.viewer import PlayerViewer
    from reelrl.content.games.kinds import Moment
    from reelrl.runs.folder import Run

RECENT = 20  # episodes whose mean return is reported
ENDS = ("ended", "earned")
"""Whether the episode ended with this frame, and what it earned if so."""
GAME_FAILED = (ContentError, InvalidRewardError, InvalidStateError)


class AtariTrainer:
    """Learns to play a game in a run folder."""

    def __init__(
        self,
        settings: AtariTraining,
        seed: int,
        run: Run,
        device: str | torch.device = "cpu",
        viewer: PlayerViewer | None = None,
    ) -> None:
        self.settings, self.seed, self.run, self.viewer = settings, seed, run, viewer
        run.checkpoints = Checkpoints(run.checkpoints.folder, keep=settings.keep_checkpoints)
        self.play = Play(GameProcess(settings.source, seed, settings.player.shows))
        try:
            self.player = StreamingPlayers(settings.player, self.play.game.facts, device=device)
        except BaseException:
            self.close()
            raise
        columns = FIGURES + ENDS + (PICTURE_FIGURES if settings.player.watches else ())
        self.window = PlayWindow(run, settings.log_every, columns, "--set player.value.lr")
        self.performance = PerformanceMonitor()
        self.returns: deque[float] = deque(maxlen=RECENT)
        """What the last episodes earned."""
        self.frames_done = 0
        self._chance = seeding.stream(seed, "player")
        self._action = 0

    def resume(self) -> bool:
        """Go back to the run's newest checkpoint, if it has one."""
        saved = self.run.resume()
        if saved is None:
            return False
        with restoring(saved.folder):
            state = saved.state
            self.player.load_training_state(tensors_below(saved, "player.") | state["player"])
            if state["window"]:
                self.window.count, self.window.sums = state["window"]["count"], state["window"]["sums"]
            self.play.go_to(state["game"], saved.tensors["actions"].tolist())
            self._action = int(self.player.learner.action[0])
            self.returns.extend(state["returns"])
            self._chance = seeding.restore(state["chance"])
        self.frames_done = saved.step
        self._save_weights()  # a kill between the checkpoint and this file left that of the checkpoint before
        return True

    def train(self, on_frame: Callable[[int], None], saving: Saving | None = None) -> None:
        """Play until `frames` in all are seen; an interrupt ends it after the frame under way."""
        logger = TensorBoardLogger(self.run.board, self.window.columns, on_rows=self.window.add)
        try:
            with saving or Saving() as saving:
                self._go_on(logger, on_frame, saving)
            self._save(logger)
        finally:
            logger.close()

    def _go_on(self, logger: TensorBoardLogger, on_frame: Callable[[int], None], saving: Saving) -> None:
        while self.frames_done < self.settings.frames:
            with self.performance.part("game"):
                moment, began = self._next_moment(logger)
            with self.performance.part("update"):
                result = self.player.step(PlayerMoments.of([moment], [began]), self._chance.random((1, 2)))
            self._action = result.actions[0]
            self.frames_done += 1
            with self.performance.part("logging"):
                self._log(logger, moment, result)
            on_frame(self.frames_done)
            if self.frames_done < self.settings.frames:  # the end is saved where it is known
                due = self.frames_done % self.settings.save_every == 0
                saving.reached(f"frame {spaced(self.frames_done)}", lambda: self._save(logger), due=due)

    def _next_moment(self, logger: TensorBoardLogger) -> tuple[Moment, bool]:
        try:
            return self.play.next(self._action)
        except GAME_FAILED:
            self._save(logger)  # the game is gone, but not what was learned from it
            raise

    def _log(self, logger: TensorBoardLogger, moment: Moment, result: StepResult) -> None:
        ends = torch.tensor([moment.over, self.play.total if moment.over else 0.0], device=self.player.device)
        row = torch.cat([result.figures[0], ends, *map(figures_of, result.pictures)])
        beside = {f"time/{part}_ms": 1000 * seconds for part, seconds in self.performance.last_s.items()}
        if moment.over:
            play = self.play
            self.returns.append(play.total)
            beside["episode/return"], beside["episode/frames"] = play.total, float(len(play.actions))
            self.run.log_episode(
                {"episode": play.episode, "frame": self.frames_done, "actions": len(play.actions), "return": play.total}
            )
        if self.viewer:
            self.viewer.offer(self.frames_done, moment, self.player, self._action, self.play.total)
        logger.add(self.frames_done, row, beside | {"time/fps": self.performance.fps})

    def _save(self, logger: TensorBoardLogger) -> None:
        """A checkpoint of this moment, once all before it is logged and found finite."""
        logger.drain()
        window = {"count": self.window.count, "sums": self.window.sums}
        state = self.player.training_state()
        save_player(self.run, self.frames_done, state, self.play, list(self.returns), self._chance, window)
        self._save_weights()

    def _save_weights(self) -> None:
        """The autoencoder by itself, as `reel train autoencoder` saves it, for whoever sees with it."""
        if self.player.autoencoder:
            save_weights(self.player.autoencoder, self.run.new_artifact(WEIGHTS))

    def close(self) -> None:
        """End the game's process."""
        self.play.game.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def save_player(
    run: Run,
    frame: int,
    state: Mapping[str, Tensor | int],
    play: Play,
    returns: Sequence[float],
    chance: np.random.Generator,
    window: dict[str, Any] | None = None,
) -> None:
    """A checkpoint of a player, its game and its chance; without `window` one that begins after this frame."""
    arrays = {f"player.{name}": value.cpu().numpy() for name, value in state.items() if isinstance(value, Tensor)}
    plain = {
        "player": {name: value for name, value in state.items() if not isinstance(value, Tensor)},
        "window": window,
        "game": play.place(),
        "returns": list(returns)[-RECENT:],
        "chance": seeding.capture(chance),
    }
    run.checkpoint(frame, arrays | {"actions": np.asarray(play.actions, np.int32)}, plain)


class PlayWindow(MeanWindow):
    """Means of the figures over so many frames, and the mean return of the episodes that ended in them, if any did."""

    def summary(self, means: dict[str, float]) -> dict[str, float]:
        shown = {name: value for name, value in means.items() if name not in ENDS}
        return shown | ({"return": means["earned"] / means["ended"]} if means["ended"] else {})
