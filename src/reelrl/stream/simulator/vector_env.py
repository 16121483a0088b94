"""`AbrVectorEnv`: thousands of players on one core, Gymnasium's vector interface."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from reelrl.errors import ConfigError
from reelrl.stream.data.ladders import nominal_ladder, read_ladder
from reelrl.stream.data.pools import default_links
from reelrl.stream.data.traces import read_traces
from reelrl.stream.simulator import rule as rules
from reelrl.stream.simulator.environment import RANDOM_SEED, check_deliverable
from reelrl.stream.simulator.kernels import FACTS, PLAYER, all_below, reset_players, step_players
from reelrl.stream.simulator.observation import DEFAULT_QUALITY, S_INFO, state_columns
from reelrl.stream.simulator.packed import has_noise, pack_episode, pack_links
from reelrl.stream.simulator.qoe import DEFAULT_REBUF_PENALTY, DEFAULT_SMOOTH_PENALTY, Qoe, as_qoe

Floats = npt.NDArray[np.float64]


class AbrVectorEnv(gymnasium.vector.VectorEnv[npt.NDArray[np.float32], npt.NDArray[np.int64], npt.NDArray[np.bool_]]):
    """`num_envs` independent `ABREnv`s over one video, stepped together in compiled code.

    A player whose video ends starts the next one in the same step; `infos["final_obs"]` holds the observation it ended
    with, `infos["_final_obs"]` says for whom. Other infos are arrays by name, as in `ABREnv`; `infos=False` leaves
    them out. `reset(options={"traces": [0, 1, ...]})` gives each player one trace to keep instead of drawing.
    """

    def __init__(
        self,
        traces: Any = None,
        ladder: Any = None,
        num_envs: int = 1024,
        *,
        default_quality: int = DEFAULT_QUALITY,
        rebuf_penalty: float = DEFAULT_REBUF_PENALTY,
        smooth_penalty: float = DEFAULT_SMOOTH_PENALTY,
        queue_delay_ms: float = 0.0,
        preset: str | None = None,
        noise: bool | None = None,
        random_start: bool | None = None,
        qoe: Qoe | str = "linear",
        state: str = "pensieve",
        random_seed: int = RANDOM_SEED,
        infos: bool = True,
        buffer_s: float | None = None,
    ) -> None:
        if num_envs < 1:
            raise ConfigError(f"num_envs = {num_envs}; at least 1 player is needed")
        self.rule = rules.named_rule(preset, noise=noise, queue_delay_ms=queue_delay_ms, buffer_s=buffer_s)
        self.traces = default_links() if traces is None else read_traces(traces)
        resolved = nominal_ladder() if ladder is None else read_ladder(ladder)
        self.video = resolved.video(self.traces[0] if len(self.traces) == 1 else None)
        for trace in self.traces:
            check_deliverable(trace, self.video, self.rule)
        if not 0 <= default_quality < self.video.rungs:
            raise ConfigError(f"default_quality = {default_quality}; choose 0 to {self.video.rungs - 1}")
        if random_start is None:
            random_start = preset == "pensieve" and has_noise(self.rule)
        self.links = pack_links(self.traces)
        self.episode = pack_episode(
            self.video,
            as_qoe(qoe, rebuf_penalty, smooth_penalty),
            default_quality=default_quality,
            keep_junk=preset == "pensieve",
            random_start=random_start,
        )
        self.num_envs = num_envs
        self.columns = state_columns(self.video.rungs, state)
        self.single_action_space = spaces.Discrete(self.video.rungs)
        high = np.finfo(np.float32).max
        self.single_observation_space = spaces.Box(0.0, high, (S_INFO, self.columns), np.float32)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.metadata = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
        self._with_infos = infos
        self._first_seed: int | None = random_seed
        self._players = np.zeros(num_envs, dtype=PLAYER)
        self._obs = np.zeros((num_envs, S_INFO * self.columns), dtype=np.float32)
        self._no_facts = np.zeros((0, len(FACTS)))
        self._ending = 0
        self._never = np.zeros(num_envs, dtype=np.bool_)
        self._never.setflags(write=False)
        self._begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[npt.NDArray[np.float32], dict[str, Any]]:
        """Begin a video for every player."""
        if seed is None:
            seed = self._first_seed
        self._first_seed = None
        if seed is not None:
            self._np_random, self._np_random_seed = gymnasium.utils.seeding.np_random(seed)
        self._players["random"] = self.np_random.integers(2**64, size=self.num_envs, dtype=np.uint64)
        self._players["forced_trace"] = self._forced_traces(options or {})
        self._obs = np.empty_like(self._obs)
        self._ending = reset_players(self._players, self._obs, self.links, self.episode, self.rule)
        self._begun = True
        return self._shaped(self._obs), {}

    def _forced_traces(self, options: dict[str, Any]) -> Any:
        unknown = sorted(set(options) - {"traces"})
        if unknown:
            raise ConfigError(f"reset options {unknown} are unknown; choose from traces")
        if "traces" not in options:
            return -1
        chosen = np.asarray(options["traces"])
        if chosen.shape != (self.num_envs,) or chosen.min() < 0 or chosen.max() >= len(self.traces):
            raise ConfigError(
                f"traces has shape {chosen.shape}; give {self.num_envs} numbers from 0 to {len(self.traces) - 1}"
            )
        return chosen

    def step(  # type: ignore[override]  # gymnasium types rewards as it types ends
        self, actions: npt.NDArray[np.int64]
    ) -> tuple[npt.NDArray[np.float32], Floats, npt.NDArray[np.bool_], npt.NDArray[np.bool_], dict[str, Any]]:
        """Download the next chunk of every player at its own rung."""
        if not self._begun:
            raise gymnasium.error.ResetNeeded("no video has begun; call reset() first")
        actions = self._checked(actions)
        # Fresh arrays each step: what a caller kept from the last one must not change under it.
        obs = np.empty_like(self._obs)
        rewards = np.empty(self.num_envs)
        ended = np.empty(self.num_envs, dtype=np.bool_)
        facts = np.empty((self.num_envs, len(FACTS))) if self._with_infos else self._no_facts
        ends_now = self._ending > 0
        final = np.zeros_like(self._obs) if ends_now else self._obs
        self._ending = step_players(
            self._players, actions, self._obs, obs, rewards, ended, facts, final, self.links, self.episode, self.rule
        )
        self._obs = obs
        infos: dict[str, Any] = dict(zip(FACTS, facts.T, strict=True)) if self._with_infos else {}
        if ends_now:
            infos |= {"final_obs": self._shaped(final), "_final_obs": ended}
        return self._shaped(obs), rewards, ended, self._never, infos

    def _checked(self, actions: Any) -> npt.NDArray[np.int64]:
        array = np.ascontiguousarray(actions, dtype=np.int64)
        if array.shape != (self.num_envs,):
            raise ConfigError(
                f"actions have shape {array.shape}; give one rung for each of the {self.num_envs} players"
            )
        if not all_below(array, self.video.rungs):
            raise ConfigError(
                f"actions go from {array.min()} to {array.max()}; the ladder has rungs 0 to {self.video.rungs - 1}"
            )
        return array

    def _shaped(self, flat: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        return flat.reshape(self.num_envs, S_INFO, self.columns)

    def export(self) -> npt.NDArray[np.void]:
        """The players, for a checkpoint; `restore` continues from it exactly (with the observation that
        went with it).
        """
        return self._players.copy()

    def restore(self, players: npt.NDArray[np.void], obs: npt.NDArray[np.float32]) -> None:
        """Continue from what `export` and the last observation held."""
        if players.shape != self._players.shape or players.dtype != PLAYER:
            raise ConfigError(
                f"{players.shape[0]} saved players for {self.num_envs}; restore into an environment of the same size"
            )
        self._players = players.copy()
        self._obs = np.ascontiguousarray(obs.reshape(self._obs.shape)).copy()
        self._first_seed = None
        self._ending = int((players["chunk"] == self.video.chunks - 1).sum())
        self._begun = True
