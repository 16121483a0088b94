"""The collector of `reel train doom`, in the place of torchrl's: it plays all matches as one batch.

strict       collect 1 ─► learn 1 ─► collect 2 ─► learn 2         every batch by the newest policy
beside       collect 1 ─► collect 2 ─► collect 3                  engines never wait for the learner; a batch is
                          learn 1   ─► learn 2                    played by the policy before the last update

Of two sides the actor plays side A; side B has a copy of it as it was (self_play).
With `spread` every match is a task of its own, played elsewhere if the command says so (match_tasks).
"""

from __future__ import annotations

import copy
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch
from torchrl.envs import TransformedEnv
from torchrl.envs.utils import ExplorationType, set_exploration_type

from reelrl import seeding
from reelrl.act.marl.benchmarl.actor_draws import OwnDraws
from reelrl.act.marl.benchmarl.match_tasks import MatchRollouts, MatchSettings
from reelrl.act.marl.benchmarl.rollouts import GROUP, NOT_TAUGHT, TAUGHT, CollectedBatch, Rollouts, tensordict_of
from reelrl.act.marl.benchmarl.self_play import EarlierCopy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tensordict import TensorDictBase
    from torch import Tensor

    from reelrl.act.marl.benchmarl.rollouts import Known
    from reelrl.act.marl.benchmarl.train import DoomExperiment
    from reelrl.act.marl.settings import CollectionSettings


class MatchCollector:
    """Iterates over batches of steps; engines start with the first one."""

    def __init__(self, experiment: DoomExperiment, settings: CollectionSettings) -> None:
        self._experiment, self._settings = experiment, settings
        self._beside = settings.beside and experiment.on_policy
        config, on_policy = experiment.config, experiment.on_policy
        self._device = torch.device(config.sampling_device)
        self._matches = config.n_envs_per_worker(on_policy)
        self._steps = -(-config.collected_frames_per_batch(on_policy) // self._matches)
        self._rollouts: Rollouts | MatchRollouts | None = None
        self._thread = ThreadPoolExecutor(1, "collector")
        self._under_way: Future[CollectedBatch] | None = None
        policy = experiment.policy
        elsewhere = any(parameter.device != self._device for parameter in policy.parameters())
        self._source = policy
        self._policy = copy.deepcopy(policy).to(self._device) if self._beside or elsewhere else policy
        self._draws: OwnDraws | None = None
        if self._beside or settings.spread:
            actor = self._policy[0].module[0]
            self._draws = OwnDraws(actor, seeding.seed_for(experiment.seed, "actions"), self._device)
        self._draws_begun: Tensor | None = None
        self.opponent: EarlierCopy | None = None
        if experiment.task.settings.sides == 2:
            actor, seed = copy.deepcopy(self._policy[0].module[0]), seeding.seed_for(experiment.seed, "side B")
            self.opponent = EarlierCopy(OwnDraws(actor, seed, self._device), experiment.self_play.renew)
        self._stream: Any = torch.cuda.Stream(self._device) if self._device.type == "cuda" else None  # type: ignore[no-untyped-call]

    def __iter__(self) -> Iterator[TensorDictBase]:
        self._begun = self._experiment.total_frames
        while True:
            yield self._next()

    def update_policy_weights_(self) -> None:
        """Players act by the newest weights from here on; beside the learner, when the next batch begins."""
        if not self._beside and self._policy is not self._source:
            self._take_weights()

    def state_dict(self) -> dict[str, Any]:
        """The batch under way is played anew by whoever goes on from here, with the chance that it began with."""
        state: dict[str, Any] = {"draws": self._draws_begun if self._under_way else self._draws and self._draws.state()}
        if self.opponent:
            state["opponent"] = self.opponent.state(under_way=self._under_way is not None)
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._draws and state.get("draws") is not None:
            self._draws.restore(state["draws"])
        if self.opponent and state.get("opponent") is not None:
            self.opponent.restore(state["opponent"])

    def shutdown(self, **_: Any) -> None:
        """End the matches, in the middle of a batch if need be. A second call does nothing."""
        if self._rollouts is not None:
            self._rollouts.stop()
            self._thread.shutdown(wait=True)
            self._rollouts.close()

    def _next(self) -> TensorDictBase:
        experiment = self._experiment
        if not self._beside:
            batch = self._ready().collect(self._draws or self._act)  # type: ignore[arg-type]
        else:
            batch = (self._under_way or self._submit()).result()
            last = experiment.n_iters_performed + 1 >= experiment.config.get_max_n_iters(True)
            self._under_way = None if last else self._submit()
        if batch.frames is not None and experiment.frames is not None:
            experiment.frames.frames = batch.frames.to(experiment.config.train_device)
        steps = batch.steps.to(self._device)
        players = steps[GROUP]
        if experiment.imitation.steps and players.get(TAUGHT, None) is None:
            players[TAUGHT] = torch.full_like(players["action"], NOT_TAUGHT)
        return steps

    def _submit(self) -> Future[CollectedBatch]:
        rollouts = self._ready()
        self._take_weights()
        self._draws_begun = self._draws.state() if self._draws else None
        weights_are_here = torch.cuda.current_stream(self._device).record_event() if self._stream else None
        return self._thread.submit(self._collect, rollouts, weights_are_here)

    def _collect(self, rollouts: Rollouts | MatchRollouts, weights_are_here: Any) -> CollectedBatch:
        """Beside the learner, in a stream of its own: what the learner has asked of the GPU is not waited for.

        All of it, from pictures to actions: what one stream writes and another one reads may not be there yet.
        """
        with torch.cuda.stream(self._stream):
            if self._stream:
                self._stream.wait_event(weights_are_here)
            return rollouts.collect(self._draws)  # type: ignore[arg-type]

    def _ready(self) -> Rollouts | MatchRollouts:
        """The matches for another batch: other ones when the teacher has gone."""
        imitation = self._experiment.imitation
        taught = self._experiment.on_policy and self._begun < imitation.steps
        shown = round(imitation.shown_share(self._begun) * self._matches)
        if self.opponent:
            self.opponent.before_batch(self._begun, self._matches * self._steps, self._source[0].module[0])
        self._begun += self._matches * self._steps
        if self._rollouts is None or self._rollouts.taught != taught:
            if self._rollouts is not None:
                self._rollouts.close()
            self._rollouts = self._start(taught)
        self._rollouts.shown = shown
        return self._rollouts

    def _take_weights(self) -> None:
        with torch.no_grad():
            for mine, theirs in zip(self._policy.parameters(), self._source.parameters(), strict=True):
                mine.copy_(theirs)

    def _start(self, taught: bool) -> Rollouts | MatchRollouts:
        experiment = self._experiment
        task = experiment.task
        # From 1: BenchMARL looks at a match 0 that it never plays, and a seed means the same matches here.
        seeds = [seeding.seed_for(experiment.seed, "match", number) for number in range(1, self._matches + 1)]
        if self._settings.spread:
            shared = (self._steps, task.video_key, experiment.frames is not None, taught)
            matches = [MatchSettings(task.settings, seed, *shared) for seed in seeds]
            return MatchRollouts(matches, experiment.jobs)
        env = experiment.test_env
        while isinstance(env, TransformedEnv):
            env = env.base_env
        transforms = task.get_env_transforms(env)
        return Rollouts(
            task.settings,
            seeds,
            self._steps,
            video_key=task.video_key,
            groups=self._settings.groups,
            rows_only=experiment.frames is not None,
            encoder=transforms[0] if transforms else None,
            device=self._device,
            taught=taught,
            opponent=self.opponent,
        )

    @torch.no_grad()
    def _act(self, known: Known) -> dict[str, Tensor]:
        """By the policy as BenchMARL has it, exploration and all."""
        experiment = self._experiment
        first = experiment.config.off_policy_init_random_frames
        if not experiment.on_policy and experiment.total_frames < first:
            matches = len(next(iter(known.values())))
            return {"action": experiment.action_spec.expand([matches]).rand()[GROUP, "action"]}
        with set_exploration_type(ExplorationType.RANDOM):
            answer = self._policy(tensordict_of(known))[GROUP]
        wanted = {name: answer.get(name, None) for name in ("action", "log_prob", "logits")}
        return {name: value for name, value in wanted.items() if value is not None}
