"""Fit Fugu's predictor: how long chunks take, given how long the last ones took."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reelrl.seeding import seed_for, stream
from reelrl.stream.controllers.fugu import EDGES, HORIZON, predictor_inputs
from reelrl.stream.controllers.history import histories, mean_rates
from reelrl.stream.data.pools import training_pool, validation_pools
from reelrl.stream.fit.supervised import as_policy, learn, loss_on, make_net
from reelrl.stream.simulator.vector_env import AbrVectorEnv

if TYPE_CHECKING:
    from collections.abc import Callable

    from reelrl.runs.policy_file import Policy
    from reelrl.stream.data.traces import Trace

Floats = npt.NDArray[np.float64]

HIDDEN = 64
PLAYERS = 512


@dataclass(frozen=True)
class Downloads:
    """Rows of the predictor, the class of each, and how far each was from what was promised."""

    rows: npt.NDArray[np.float32]
    classes: npt.NDArray[np.int64]
    ratios: Floats


def fit_predictor(
    ladder: Any, *, links: int, videos: int, epochs: int, seed: int, moved: Callable[[str], None]
) -> Policy:
    """A predictor fitted to sessions on `links` of the training pool, and how well it does on validation links."""
    moved("collect")
    pool = training_pool(seed, links)
    seen = collect(pool, ladder, videos, seed)
    held_out = [trace for traces in validation_pools().values() for trace in traces]
    unseen = collect(held_out, ladder, max(videos // 4, 1), seed + 1)
    classes = len(EDGES) + 1
    counts = np.bincount(seen.classes, minlength=classes)
    # A class stands for the mean of what fell into it; an empty one for its edge.
    middles = np.concatenate([EDGES[:1], EDGES])
    sums = np.bincount(seen.classes, weights=seen.ratios, minlength=classes)
    factors = np.where(counts > 0, sums / np.maximum(counts, 1), middles)
    moved("fit")
    net = make_net(seen.rows.shape[1], HIDDEN, classes, seed_for(seed, "fugu"))
    learned = learn(net, seen.rows, seen.classes, epochs, seed)
    shares = (counts + 1.0) / (counts + 1.0).sum()
    facts = {
        "controller": "fugu",
        "factors": factors.tolist(),
        "downloads": len(seen.rows),
        "loss": round(learned, 4),
        "validation_loss": round(loss_on(net, unseen.rows, unseen.classes), 4),
        "validation_loss_without_history": round(float(-np.log(shares[unseen.classes]).mean()), 4),
    }
    return as_policy(net, facts)


def collect(links: list[Trace], ladder: Any, videos: int, seed: int) -> Downloads:
    """Sessions of players that follow the mean rate, some boldly and some shyly, and of some that choose by chance."""
    env = AbrVectorEnv(links, ladder, PLAYERS, preset="pensieve")
    rng = stream(seed, "fugu", "players")
    observations, _ = env.reset(seed=seed_for(seed, "fugu links"))
    parts = [_session(env, observations, rng)]
    for _ in range(videos - 1):
        parts.append(_session(env, parts[-1][3], rng))
    return Downloads(
        np.concatenate([part[0] for part in parts]),
        np.concatenate([part[1] for part in parts]),
        np.concatenate([part[2] for part in parts]),
    )


def _session(env: AbrVectorEnv, observations: Any, rng: np.random.Generator) -> tuple[Any, Any, Any, Any]:
    """One video of every player, as rows, classes and ratios; and the first states of the next."""
    boldness = np.exp(rng.uniform(np.log(0.4), np.log(1.5), PLAYERS))
    random = rng.random(PLAYERS) < 0.3
    before, sizes, times_s = [], [], []
    for _ in range(env.video.chunks - 1):
        rates = mean_rates(observations)
        wanted = np.searchsorted(env.video.bitrates_kbps, boldness * rates / 125.0, side="right") - 1
        rungs = np.where(random, rng.integers(0, env.video.rungs, PLAYERS), np.maximum(wanted, 0))
        before.append((histories(observations, rates), rates))
        observations, _, _, _, infos = env.step(rungs)
        sizes.append(infos["chunk_size_bytes"])
        times_s.append(infos["delay_ms"] / 1000.0)
    rows, ratios = [], []
    for now, (history, rates) in enumerate(before):
        for ahead in range(min(HORIZON, len(before) - now)):
            promised_s = sizes[now + ahead] / rates
            rows.append(predictor_inputs(history, promised_s, np.full(PLAYERS, ahead)))
            ratios.append(times_s[now + ahead] / promised_s)
    all_ratios = np.concatenate(ratios)
    return np.concatenate(rows), np.searchsorted(EDGES, all_ratios), all_ratios, observations
