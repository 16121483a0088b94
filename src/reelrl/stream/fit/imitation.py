"""Fit Comyco's student: play, ask the expert what each rung would lead to, learn from all answers so far (DAgger).

A student that copies the expert's choice alone learns to be as bold as somebody who knows that no outage comes. So it
is taught what every choice would have cost, and takes the one that it expects to cost least.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from reelrl.seeding import seed_for, stream
from reelrl.stream.controllers.comyco import input_count, student_inputs
from reelrl.stream.data.pools import training_pool
from reelrl.stream.fit.expert import Expert
from reelrl.stream.fit.supervised import as_policy, cost_error, learn, make_net
from reelrl.stream.simulator.qoe import as_qoe
from reelrl.stream.simulator.vector_env import AbrVectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.runs.policy_file import Policy

HIDDEN = 128
MOST_REGRET = 8.0  # costs beyond it count as this: single long outages would drown everything else


def fit_student(
    ladder: Any,
    *,
    links: int,
    players: int,
    rounds: int,
    epochs: int,
    seed: int,
    moved: Callable[[int, dict[str, float]], None],
    qoe: str = "linear",
) -> Policy:
    """A student of `rounds` videos for each of `players`; `moved` is told of each round's share of right answers."""
    pool = training_pool(seed, links)
    env = AbrVectorEnv(pool, ladder, players, preset="pensieve", qoe=qoe, infos=False)
    rungs = env.video.rungs
    expert = Expert(pool, env.video, as_qoe(qoe), env.rule)
    rng = stream(seed, "comyco", "players")
    net = make_net(input_count(rungs), HIDDEN, rungs, seed_for(seed, "comyco"))
    rows: list[Any] = []
    labels: list[Any] = []
    observations, _ = env.reset(seed=seed_for(seed, "comyco links"))
    agreed = loss = 0.0
    for number in range(rounds):
        right = 0
        # The first videos are the expert's, later ones the student's: it has to learn where *it* gets to.
        trust = 0.0 if number == 0 else 1.0 - 0.5**number
        for _ in range(env.video.chunks - 1):
            inputs = student_inputs(observations, rungs)
            with torch.no_grad():
                guesses = net(torch.from_numpy(inputs)).argmax(dim=1).numpy()
            regrets = _regrets(env, expert)
            answers = regrets.argmin(axis=1)
            right += int((guesses == answers).sum())
            rows.append(inputs)
            labels.append(regrets)
            observations, *_ = env.step(np.where(rng.random(players) < trust, guesses, answers))
        agreed = right / (players * (env.video.chunks - 1))
        net = make_net(input_count(rungs), HIDDEN, rungs, seed_for(seed, "comyco"))
        loss = learn(net, np.concatenate(rows), np.concatenate(labels), epochs, seed + number, cost_error)
        moved(players * (env.video.chunks - 1), {"agreed": agreed, "loss": loss})
    facts = {
        "controller": "comyco",
        "answers": sum(map(len, labels)),
        "agreed": round(agreed, 4),
        "loss": round(loss, 4),
        "qoe": qoe,
        "bitrates_kbps": env.video.bitrates_kbps.tolist(),
    }
    return as_policy(net, facts)


def _regrets(env: AbrVectorEnv, expert: Expert) -> Any:
    """(players, rungs): by how much each rung would be worse than the best, the future known."""
    found = []
    for player in env.export():
        trace = int(player["trace"])
        slot = int(player["slot"] - env.links.first[trace])
        place = float(player["clock_s"]), float(player["buffer_ms"]), int(player["chunk"]), int(player["rung"])
        values = expert.values(trace, slot, *place)
        found.append(np.minimum(values.max() - values, MOST_REGRET))
    return np.array(found, dtype=np.float32)
