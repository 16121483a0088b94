"""Training of a bitrate controller: the players of `stream`, the learner of `agents`, a run folder that
resumes exactly.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import torch

from reelrl.agents.devices import pick_device
from reelrl.agents.ppo import Ppo, PpoSettings, follow, generator_on, tensors_on, to_arrays
from reelrl.errors import ConfigError
from reelrl.runs.checkpoints import restoring
from reelrl.runs.saving import Saving
from reelrl.seeding import seed_for, stream
from reelrl.stream.controllers.learned import BEST, save_policy
from reelrl.stream.controllers.network import make_policy
from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.data.pools import OUTAGE_SHARE, data_folder, training_pool, validation_pools
from reelrl.stream.playback import load_bitrate_controller
from reelrl.stream.rollout_envs import TorchPlayers, VectorPlayers, batch_players
from reelrl.stream.scalefree.controller import ScaleFree, save_scale_free
from reelrl.stream.scalefree.links import breaking_links, sources, training_links, validation_links
from reelrl.stream.scalefree.network import make_scale_free
from reelrl.stream.scalefree.players import AUDIENCES, MixedPlayers
from reelrl.stream.scalefree.random_videos import random_videos, videos_on
from reelrl.stream.scalefree.validation import ScaleFreeValidator
from reelrl.stream.simulator.qoe import Qoe
from reelrl.stream.validation import Validator

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from reelrl.runs.folder import Run
    from reelrl.stream.scalefree.network import ScaleFreePolicy


@dataclass(frozen=True, kw_only=True)
class AbrTraining:
    """How a controller is trained. Empty `ladder` and `traces` mean what REELRL_DATA holds, else what is built in."""

    steps: int = 10_000_000
    minutes: float = 0.0  # end after so many even if steps are left, the learner's rates falling by then; 0: no limit
    players: int = 1024
    rollout: int = 47
    hidden: int = 128
    ladder: str = ""
    traces: str = ""
    qoe: str = "linear"
    links: int = 6000  # how many are drawn to learn from
    outage_share: float = OUTAGE_SHARE
    validate_every: int = 20  # updates
    follow: float = 0.06  # how fast the averaged policy, the one that is kept, follows the learner's
    device: str = "auto"  # cuda where there is one
    policy: Literal["pensieve", "scalefree"] = "pensieve"  # for one ladder and its six-row state, or for any ladder
    audience: Literal["everyone", "pensieve"] = "everyone"  # whom a scale-free policy plays for: any ladder, or one
    videos: int = 2048  # ladders that a scale-free policy learns on
    noise: float = 0.1  # by which the download times vary that it learns from
    without: tuple[str, ...] = ()  # sources of traces that a scale-free policy must not see
    start: str = ""  # a scale-free policy to go on from: a name, a run folder or a file
    critic_first: int = 40  # updates before a policy to go on from begins to change
    ppo: PpoSettings = field(default_factory=PpoSettings)

    def __post_init__(self) -> None:
        for name in ("steps", "players", "rollout", "hidden", "links", "validate_every", "videos"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is 1 or more")
        if not 0 <= self.minutes < math.inf:
            raise ConfigError(f"minutes = {self.minutes}; give 0 (no limit) or more")
        for name in ("outage_share", "noise"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is a share, 0 to 1")
        if self.start and self.policy != "scalefree":
            raise ConfigError(
                f"start = {self.start} with policy = {self.policy}; only policy = scalefree goes on from one"
            )


class AbrTrainer:
    """Everything that one training needs; `train` runs it to the end, from wherever the run folder stands."""

    def __init__(self, settings: AbrTraining, seed: int) -> None:
        self.settings = settings
        self.device = pick_device(settings.device)
        parts = (_scale_free if settings.policy == "scalefree" else _one_ladder)(settings, seed, self.device)
        self.players, self.policy, self.average, self.validator, self.save_policy = parts
        on_gpu = settings.policy == "scalefree" and self.device.type == "cuda"
        if on_gpu:
            torch.set_float32_matmul_precision("high")  # what is not in bfloat16 is multiplied in TF32
        self.ppo = Ppo(
            self.policy,
            settings.ppo,
            generator_on(self.device, seed_for(seed, "actions")),
            compiled=on_gpu,
            half=on_gpu and settings.audience == "everyone",  # on one ladder bfloat16 ended in NaN
        )
        self.step, self.updates, self.best = 0, 0, -math.inf
        self._started_s = self._trained_s = 0.0
        actor = self.policy.actor.state_dict() if settings.start else {}
        self._first_actor = {name: tensor.clone() for name, tensor in actor.items()}

    def train(
        self,
        run: Run,
        report: Callable[[int, dict[str, float]], None],
        moved: Callable[[int], None] = lambda _step: None,
        saving: Saving | None = None,
    ) -> float:
        """Learn until `steps` or `minutes` are over; returns the best validation score.

        `report` hears of validations, `moved` of updates. An interrupt ends it after the update under way.
        """
        settings = self.settings
        observations, hints = self._begin(run)
        self._started_s = time.monotonic() - self._trained_s
        with saving or Saving() as saving:
            progress = self._progress()
            while progress < 1:
                rollout, observations, hints = self.ppo.collect(self.players, observations, hints, settings.rollout)
                metrics = self.ppo.update(rollout, progress)
                self._hold_actor()
                follow(self.average, self.policy, settings.follow)
                self.step += settings.players * settings.rollout
                self.updates += 1
                moved(self.step)
                progress = self._progress()
                last = progress >= 1
                due = self.updates % settings.validate_every == 0
                if due or last:
                    report(self.step, self._validate(run, metrics))
                saving.reached(f"step {self.step}", lambda: self._save(run), due=due, last=last)
        return float(self.best)

    def _progress(self) -> float:
        """From 0 to 1 over the training, whichever ends first: its steps or its minutes."""
        self._trained_s = time.monotonic() - self._started_s
        minutes = self.settings.minutes
        return max(self.step / self.settings.steps, self._trained_s / 60.0 / minutes if minutes else 0.0)

    def _hold_actor(self) -> None:
        """A policy to go on from waits until there is a critic that knows it."""
        if not self._first_actor or self.updates >= self.settings.critic_first:
            return
        self.policy.actor.load_state_dict(self._first_actor)
        if self.updates == self.settings.critic_first - 1:
            self.ppo.forget(self.policy.actor.parameters())

    def _begin(self, run: Run) -> tuple[Tensor, Tensor]:
        """Where the players stand: at the start, or where the run's newest checkpoint has them."""
        saved = run.resume()
        if saved is None:
            return self.players.reset()
        with restoring(saved.folder):
            self.step, self.updates, self.best = saved.step, int(saved.state["updates"]), float(saved.state["best"])
            self._trained_s = float(saved.state.get("trained_s", 0.0))
            tensors = tensors_on(self.device, saved.tensors)
            self.ppo.restore(_part(tensors, "ppo."))
            self.average.load_state_dict(_part(tensors, "average."))
            return self.players.restore(_part(tensors, "players."))

    def _validate(self, run: Run, metrics: dict[str, float]) -> dict[str, float]:
        """Score the averaged policy, and keep it if it is the best so far."""
        scores = self.validator.score(self.average)
        if scores["score"] > self.best:
            self.best = scores["score"]
            self.save_policy(self.average, run.new_artifact(BEST), {"step": self.step, **scores})
        run.log_metrics(self.step, {**metrics, **scores})
        return {**metrics, **scores, "best": self.best}

    def _save(self, run: Run) -> None:
        parts = {"ppo.": self.ppo.export(), "players.": self.players.export(), "average.": self.average.state_dict()}
        timed = {"trained_s": self._trained_s} if self.settings.minutes else {}
        run.checkpoint(self.step, to_arrays(parts), {"updates": self.updates, "best": self.best, **timed})


class _Parts(NamedTuple):
    """What differs between the two kinds of policy."""

    players: TorchPlayers | VectorPlayers | MixedPlayers
    policy: Any
    average: Any
    validator: Any
    save: Callable[[Any, Path, dict[str, Any]], None]


def _one_ladder(settings: AbrTraining, seed: int, device: torch.device) -> _Parts:
    """Pensieve's state and simulator, one ladder."""
    ladder, folder = _ladder(settings), _folder(settings)
    links = training_pool(seed, settings.links, settings.outage_share, folder)
    players = batch_players(links, ladder, settings.players, device, seed_for(seed, "players"), qoe=settings.qoe)
    policy, average = (make_policy(players.rungs, settings.hidden, seed_for(seed, "weights"), device) for _ in range(2))
    video = read_ladder(ladder).video()

    def save(policy: Any, path: Path, facts: dict[str, Any]) -> None:
        save_policy(policy, path, facts | {"rates_kbps": video.bitrates_kbps.tolist(), "chunk_s": video.chunk_s})

    return _Parts(players, policy, average, Validator(validation_pools(folder=folder), ladder, settings.qoe), save)


def _scale_free(settings: AbrTraining, seed: int, device: torch.device) -> _Parts:
    """Ladders, links, buffers and wishes of all kinds; selected on `ladder` and on ladders not learned from."""
    recorded = sources(_folder(settings))
    links = training_links(recorded, seed, settings.links, settings.without)
    breaking = breaking_links(links, seed, settings.outage_share)
    audience = AUDIENCES[settings.audience]
    shares = audience.pensieve_ladder, audience.linear_worth
    videos, worths = random_videos(stream(seed, "abr", "videos"), settings.videos, *shares)
    video = read_ladder(_ladder(settings)).video()
    worth = Qoe(variant=settings.qoe).utilities(video)[0]
    if settings.audience == "pensieve":
        # Who plays one ladder may know the video that everybody reports on.
        half = len(videos) // 2
        videos[:half], worths[:half] = [video] * half, [worth / worth[-1]] * half
    players = MixedPlayers(
        links,
        videos_on(device, videos, worths),
        settings.players,
        device,
        seed_for(seed, "players"),
        noise=settings.noise,
        compiled=device.type == "cuda",
        audience=audience,
        breaking=breaking,
    )
    policy, average = (_first_scale_free(settings, seed, device) for _ in range(2))
    pools = validation_links(recorded, settings.without)
    # A policy for Pensieve's players is told that links hold, and plays on no other ladder.
    selected = ("recorded", "mobile") if settings.audience == "pensieve" else ()
    validator = ScaleFreeValidator(pools, video, worth / worth[-1], device, selected)

    def save(policy: Any, path: Path, facts: dict[str, Any]) -> None:
        save_scale_free(policy, path, facts | {"without": list(settings.without), "audience": settings.audience})

    return _Parts(players, policy, average, validator, save)


def _first_scale_free(settings: AbrTraining, seed: int, device: torch.device) -> ScaleFreePolicy:
    if not settings.start:
        return make_scale_free(settings.hidden, seed_for(seed, "weights"), device)
    controller = load_bitrate_controller(settings.start)
    if not isinstance(controller, ScaleFree):
        raise ConfigError(
            f"start = {settings.start} is no scale-free policy; give `scalefree`, or what such a run left"
        )
    return controller.policy.to(device)


def _ladder(settings: AbrTraining) -> Any:
    return settings.ladder or data_folder("videos/envivio") or "nominal"


def _folder(settings: AbrTraining) -> Path | None:
    return Path(settings.traces) if settings.traces else None


def _part(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
