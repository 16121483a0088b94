"""Training of a bitrate controller: the players of `stream`, the learner of `agents`, a run folder that
resumes exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.agents.ppo import Ppo, PpoSettings, follow, generator_on, pick_device, tensors_on, to_arrays
from reelrl.errors import ConfigError
from reelrl.seeding import seed_for
from reelrl.stream.learned import BEST, save_policy
from reelrl.stream.players import batch_players
from reelrl.stream.policy import make_policy
from reelrl.stream.pools import OUTAGE_SHARE, data_folder, training_pool, validation_pools
from reelrl.stream.validation import Validator

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.runs import Run


@dataclass(frozen=True, kw_only=True)
class AbrTraining:
    """How a controller is trained. Empty `ladder` and `traces` mean what REELRL_DATA holds, else what is built in."""

    steps: int = 10_000_000
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
    ppo: PpoSettings = field(default_factory=PpoSettings)

    def __post_init__(self) -> None:
        for name in ("steps", "players", "rollout", "hidden", "links", "validate_every"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} = {getattr(self, name)}; it is 1 or more")
        if not 0 <= self.outage_share <= 1:
            raise ConfigError(f"outage_share = {self.outage_share}; it is a share, 0 to 1")


class AbrTrainer:
    """Everything that one training needs; `train` runs it to the end, from wherever the run folder stands."""

    def __init__(self, settings: AbrTraining, seed: int) -> None:
        self.settings = settings
        self.device = pick_device(settings.device)
        ladder = settings.ladder or data_folder("videos/envivio") or "nominal"
        folder = Path(settings.traces) if settings.traces else None
        links = training_pool(seed, settings.links, settings.outage_share, folder)
        pools = validation_pools(folder=folder)
        self.players = batch_players(
            links, ladder, settings.players, self.device, seed_for(seed, "players"), qoe=settings.qoe
        )
        self.policy = make_policy(self.players.rungs, settings.hidden, seed_for(seed, "weights"), self.device)
        self.average = make_policy(self.players.rungs, settings.hidden, seed_for(seed, "weights"), self.device)
        self.ppo = Ppo(self.policy, settings.ppo, generator_on(self.device, seed_for(seed, "actions")))
        self.validator = Validator(pools, ladder, settings.qoe)

    def train(
        self,
        run: Run,
        report: Callable[[int, dict[str, float]], None],
        moved: Callable[[int], None] = lambda _step: None,
    ) -> float:
        """Learn until `steps`; returns the best validation score. `report` hears of validations, `moved` of updates."""
        settings = self.settings
        step, updates, best = 0, 0, -np.inf
        saved = run.resume()
        if saved is None:
            observations, hints = self.players.reset()
        else:
            step, updates, best = saved.step, int(saved.state["updates"]), float(saved.state["best"])
            tensors = tensors_on(self.device, saved.tensors)
            self.ppo.restore(_part(tensors, "ppo."))
            self.average.load_state_dict(_part(tensors, "average."))
            observations, hints = self.players.restore(_part(tensors, "players."))
        while step < settings.steps:
            rollout, observations, hints = self.ppo.collect(self.players, observations, hints, settings.rollout)
            metrics = self.ppo.update(rollout, step / settings.steps)
            follow(self.average, self.policy, settings.follow)
            step += settings.players * settings.rollout
            updates += 1
            moved(step)
            if updates % settings.validate_every and step < settings.steps:
                continue
            scores = self.validator.score(self.average)
            if scores["score"] > best:
                best = scores["score"]
                save_policy(self.average, run.new_artifact(BEST), {"step": step, **scores})
            run.log_metrics(step, {**metrics, **scores})
            state = {"updates": updates, "best": best}
            parts = {
                "ppo.": self.ppo.export(),
                "players.": self.players.export(),
                "average.": self.average.state_dict(),
            }
            run.checkpoint(step, to_arrays(parts), state)
            report(step, {**metrics, **scores, "best": best})
        return float(best)


def _part(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
