"""How fast sessions are simulated and decided, as ratios in one run. One core, CPU time, best of several rounds.

python benchmarks/stream_speed.py            REELRL_DATA's training traces and Envivio's sizes, else generated ones

The peer is a plain Python simulator and environment in Pensieve's style (state and reward included), the one that the
tests hold our `pensieve` preset equal to.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.stream.simulator.pensieve_twin import PensieveTwin

from reelrl.stream.controllers.mpc import RobustMpc, best_first_rung
from reelrl.stream.controllers.mpc_batch import MpcBatch
from reelrl.stream.controllers.oracle import best_rungs
from reelrl.stream.controllers.protocol import Session
from reelrl.stream.data.ladders import read_ladder
from reelrl.stream.data.pools import data_folder, training_pool
from reelrl.stream.data.traces import Trace, read_traces
from reelrl.stream.scalefree.controller import ScaleFree
from reelrl.stream.simulator.env import ABREnv
from reelrl.stream.simulator.rule import named_rule
from reelrl.stream.simulator.torch_env import TorchAbr
from reelrl.stream.simulator.vector_env import AbrVectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.stream.scalefree.batch import ScaleFreeBatch

ROUNDS = 5
KBPS = [300, 750, 1200, 1850, 2850, 4300]


class PlainEnv:
    """Pensieve's simulator, the 6 x 8 state and the reward, step by step in Python."""

    def __init__(self, traces: list[Trace], sizes: list[list[int]]) -> None:
        times = [t.edges_s.tolist() for t in traces]
        mbps = [[0.0, *(t.kbps / 1000.0).tolist()] for t in traces]
        self.net = PensieveTwin(times, mbps, sizes, np.random.RandomState(0))
        self.state = np.zeros((6, 8), dtype=np.float32)
        self.last = 1

    def step(self, quality: int) -> tuple[Any, float, bool]:
        delay, _, buffer, stall, size, following, end, remain = self.net.get_video_chunk(quality)
        reward = KBPS[quality] / 1000.0 - 4.3 * stall - abs(KBPS[quality] - KBPS[self.last]) / 1000.0
        self.last = quality
        state = np.roll(self.state, -1, axis=1)
        state[0, -1] = KBPS[quality] / 4300.0
        state[1, -1] = buffer / 10.0
        state[2, -1] = size / delay / 1000.0
        state[3, -1] = delay / 1000.0 / 10.0
        state[4, :6] = np.array(following) / 1000.0 / 1000.0
        state[5, -1] = remain / 48.0
        self.state = np.zeros_like(state) if end else state
        return state, reward, end


def scalar_steps(env: ABREnv, actions: list[int]) -> int:
    env.reset()
    for action in actions:
        if env.step(action)[2]:
            env.reset()
    return len(actions)


def plain_steps(env: PlainEnv, actions: list[int]) -> int:
    for action in actions:
        env.step(action)
    return len(actions)


def vector_steps(env: AbrVectorEnv, actions: Any, steps: int) -> int:
    for k in range(steps):
        env.step(actions[k % len(actions)])
    return steps * env.num_envs


def torch_steps(env: TorchAbr, actions: Any, steps: int) -> int:
    for k in range(steps):
        env.step(actions[k % len(actions)])
    return steps * env.num_envs


def decisions(session: Session, count: int) -> int:
    rng = np.random.default_rng(0)
    utilities = session.qoe.utilities(session.video)
    for k in range(count):
        chunk = k % (session.video.chunks - 5)
        ahead = slice(chunk + 1, chunk + 6)
        rate = float(rng.uniform(5e4, 6e5))
        best_first_rung(session.video.sizes_bytes[ahead], utilities[ahead], 12.0, 1.2, rate, 4.0, 4.3, 1.0)
    return count


def act(env: ABREnv, session: Session, controller: RobustMpc | ScaleFree, count: int) -> int:
    """Whole decisions of one player: reading the state, predicting, searching; the simulator included."""
    done = 0
    while done < count:
        observation, _ = env.reset()
        controller.reset(0, session)
        ended = False
        while not ended:
            observation, _, ended, _, _ = env.step(controller.act(observation))
            done += 1
    return done


def act_alone(controller: ScaleFree, session: Session, states: Any) -> int:
    """Decisions of one player without a simulator."""
    controller.reset(0, session)
    for state in states:
        controller.act(state)
    return len(states)


def decide_together(batch: ScaleFreeBatch, states: Any) -> int:
    """Decisions of a batch without a simulator."""
    for _ in range(4):
        batch.act(states)
    return 4 * len(states)


def act_together(env: AbrVectorEnv, planner: MpcBatch | ScaleFreeBatch, steps: int) -> int:
    """The same for a batch of players."""
    observations, _ = env.reset(seed=0)
    for _ in range(steps):
        observations, *_ = env.step(planner.act(observations))
    return steps * env.num_envs


def optimum(session: Session, traces: list[Trace]) -> int:
    for trace in traces:
        best_rungs(Session(session.video, session.qoe, session.rule, trace=trace))
    return len(traces)


def best_rates(cases: dict[str, Callable[[], int]]) -> dict[str, float]:
    """Interleaved rounds, so that a busy moment hits everyone; the best CPU time of each counts."""
    for work in cases.values():
        work()
    best = dict.fromkeys(cases, 0.0)
    for _ in range(ROUNDS):
        for name, work in cases.items():
            start = time.process_time()
            count = work()
            best[name] = max(best[name], count / (time.process_time() - start))
    return best


def main() -> None:
    torch.set_num_threads(1)
    folder = data_folder("traces/train")
    traces = read_traces(folder / "pensieve_fcc59") if folder else training_pool(0, 60)
    ladder = read_ladder(data_folder("videos/envivio") or "nominal")
    video = ladder.video()
    rng = np.random.default_rng(0)
    few = rng.integers(0, 6, 4000).tolist()
    cases: dict[str, Callable[[], int]] = {}
    plain = PlainEnv(traces, video.sizes_bytes.T.astype(int).tolist())
    cases["plain Python peer"] = lambda: plain_steps(plain, few)
    scalar = ABREnv(traces, ladder, preset="pensieve")
    cases["ABREnv (the judge)"] = lambda: scalar_steps(scalar, few)
    for players in (1024, 16384):
        env = AbrVectorEnv(traces, ladder, players, preset="pensieve")
        env.reset(seed=0)
        many = rng.integers(0, 6, (64, players))
        steps = max(30, 400_000 // players)
        cases[f"AbrVectorEnv, {players} players"] = lambda e=env, a=many, s=steps: vector_steps(e, a, s)  # type: ignore[misc]
    batch = TorchAbr(traces, ladder, 16384, preset="pensieve")
    batch.reset()
    rungs = torch.as_tensor(rng.integers(0, 6, (16, 16384)))
    cases["TorchAbr on one CPU core, 16384"] = lambda: torch_steps(batch, rungs, 30)
    rates = best_rates(cases)
    peer = rates["plain Python peer"]
    for name, rate in rates.items():
        print(f"steps   {name:<34} {rate:>13,.0f} /s   {rate / peer:>8.1f} x")
    quiet = named_rule("pensieve", noise=False)
    session = Session(video, rule=quiet)
    fixed = ABREnv(traces, ladder, preset="pensieve", noise=False)
    batch_env = AbrVectorEnv(traces, ladder, 512, preset="pensieve", noise=False, infos=False)
    planner = MpcBatch(session, 512)
    policy, crowd = ScaleFree(), ScaleFree().for_players(session, 4096)
    states = AbrVectorEnv(traces, ladder, 4096, preset="pensieve", noise=False, infos=False).reset(seed=0)[0]
    together = ScaleFree().for_players(session, 512)
    others = best_rates(
        {
            "scalefree, one player": lambda: act_alone(policy, session, states[:1000]),
            "scalefree, 4,096 players": lambda: decide_together(crowd, states),
            "scalefree whole session, sim included": lambda: act(fixed, session, policy, 2000),
            "scalefree whole session, 512 players": lambda: act_together(batch_env, together, 47),
            "RobustMPC search, horizon 5": lambda: decisions(session, 4000),
            "RobustMPC whole session, sim included": lambda: act(fixed, session, RobustMpc(), 2000),
            "RobustMPC whole session, 512 players": lambda: act_together(batch_env, planner, 47),
            "offline optimum, traces": lambda: optimum(session, traces[:10]),
        }
    )
    for name, rate in others.items():
        print(f"decide  {name:<38} {rate:>9,.1f} /s")


if __name__ == "__main__":
    main()
