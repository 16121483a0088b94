"""The rule compiled for many players on one core.

The functions of `rule` are compiled as they stand; only the loop over players, the drawing of numbers and the writing
of observations are new here. Results are equal to the scalar environment's to the last bit.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
import numpy.typing as npt
from numba.extending import register_jitable

from reelrl.stream.simulator import qoe
from reelrl.stream.simulator import rule as rules

if TYPE_CHECKING:
    from reelrl.stream.simulator.packed import Episode, Links

# One cache line per player. `random` is a SplitMix64 state: every player draws from a stream of its own.
PLAYER = np.dtype(
    [
        ("slot", np.int64),
        ("clock_s", np.float64),
        ("buffer_ms", np.float64),
        ("random", np.uint64),
        ("trace", np.int64),
        ("chunk", np.int64),
        ("rung", np.int64),
        ("forced_trace", np.int64),
    ]
)
FACTS = (
    "bitrate_kbps",
    "rebuffer_s",
    "buffer_s",
    "delay_ms",
    "sleep_ms",
    "chunk_size_bytes",
    "chunks_remain",
    "reward_quality",
    "reward_rebuffer",
    "reward_smooth",
)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def next_uniform(player: Any) -> float:
    """The player's next number in [0, 1): one SplitMix64 draw, its top 53 bits."""
    player.random += _GOLDEN
    z = player.random
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


def next_noise(player: Any, rule: rules.Rule) -> float:
    """The factor of the next download; no draw when the rule has no noise."""
    if rule.noise_low == rule.noise_high:
        return rule.noise_low
    return rule.noise_low + (rule.noise_high - rule.noise_low) * next_uniform(player)


def next_chunk(player: Any, rung: int, links: Links, episode: Episode, rule: rules.Rule) -> rules.Arrival:
    """Download the player's next chunk and move its clock and buffer."""
    arrival = rules.download(
        links.edges_s,
        links.bytes_per_s,
        links.latency_ms,
        links.first[player.trace],
        links.last[player.trace],
        player.slot,
        player.clock_s,
        player.buffer_ms,
        episode.sizes_bytes[player.chunk, rung],
        episode.chunk_ms,
        next_noise(player, rule),
        rule,
    )
    player.slot = arrival.slot
    player.clock_s = arrival.clock_s
    player.buffer_ms = arrival.buffer_ms
    player.chunk += 1
    return arrival


def write_observation(
    old: npt.NDArray[np.float32],
    new: npt.NDArray[np.float32],
    i: int,
    width: int,
    chunk: int,
    rung: int,
    arrival: rules.Arrival,
    episode: Episode,
) -> None:
    """Roll row i of `old` into `new` and write the newest column. Rows of the state lie end to end."""
    # Rolling all rows at once moves each row's first entry to the end of the row before; those ends are written below.
    for k in range(6 * width - 1):
        new[i, k] = old[i, k + 1]
    chunks = episode.sizes_bytes.shape[0]
    end = width - 1
    new[i, end] = episode.rate_share[rung]
    new[i, width + end] = arrival.buffer_ms / 1000.0 / 10.0
    new[i, 2 * width + end] = episode.sizes_bytes[chunk - 1, rung] / arrival.delay_ms / 1000.0
    new[i, 3 * width + end] = arrival.delay_ms / 1000.0 / 10.0
    new[i, 4 * width + end] = old[i, 4 * width]
    if not episode.keep_junk:
        for k in range(4 * width, 5 * width):
            new[i, k] = 0.0
    for rung_shown in range(episode.next_mb.shape[1]):
        new[i, 4 * width + rung_shown] = episode.next_mb[chunk, rung_shown]
    new[i, 5 * width + end] = (chunks - chunk) / chunks


def begin_video(
    player: Any, obs: npt.NDArray[np.float32], i: int, width: int, links: Links, episode: Episode, rule: rules.Rule
) -> None:
    """Draw a trace and a place in it, download the first chunk, write the first observation."""
    count = links.first.shape[0]
    if player.forced_trace >= 0:
        player.trace = player.forced_trace
    else:
        player.trace = min(int(next_uniform(player) * count), count - 1)
    first = links.first[player.trace]
    slots = links.last[player.trace] - first
    player.slot = first
    if episode.random_start:
        player.slot = first + min(int(next_uniform(player) * slots), slots - 1)
    player.clock_s = links.edges_s[player.slot]
    player.buffer_ms = 0.0
    player.chunk = 0
    player.rung = episode.default_quality
    arrival = next_chunk(player, player.rung, links, episode, rule)
    for k in range(obs.shape[1]):
        obs[i, k] = 0.0
    write_observation(obs, obs, i, width, player.chunk, player.rung, arrival, episode)


def write_facts(
    facts: npt.NDArray[np.float64],
    i: int,
    chunk: int,
    rung: int,
    last_utility: float,
    arrival: rules.Arrival,
    episode: Episode,
) -> None:
    """The columns of FACTS for one player."""
    utility = episode.utilities[chunk - 1, rung]
    facts[i, 0] = episode.kbps[rung]
    facts[i, 1] = arrival.stall_ms / 1000.0
    facts[i, 2] = arrival.buffer_ms / 1000.0
    facts[i, 3] = arrival.delay_ms
    facts[i, 4] = arrival.sleep_ms
    facts[i, 5] = episode.sizes_bytes[chunk - 1, rung]
    facts[i, 6] = episode.sizes_bytes.shape[0] - chunk
    facts[i, 7] = utility
    facts[i, 8] = -episode.rebuf_penalty * (arrival.stall_ms / 1000.0)
    facts[i, 9] = -episode.smooth_penalty * abs(utility - last_utility)


_RULES = (rules.fetch, rules.wait, rules.play, rules.full_buffer_sleep_ms, rules.download, qoe.chunk_reward)
_LOCAL = (next_uniform, next_noise, next_chunk, write_observation, begin_video, write_facts)
for _function in (*_RULES, *_LOCAL):
    register_jitable(_function)


def _compile(stamp: int) -> tuple[Any, Any]:
    """The two kernels; each returns how many players have one chunk to go.

    `stamp` (0 or more) takes part in numba's cache key, so that an edit of the rule is never served stale.
    """

    @numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
    def reset_players(players: Any, obs: Any, links: Any, episode: Any, rule: Any) -> int:
        width = obs.shape[1] // 6
        for i in range(players.shape[0]):
            begin_video(players[i], obs, i, width, links, episode, rule)
        return players.shape[0] if episode.sizes_bytes.shape[0] == 2 or stamp < 0 else 0

    @numba.njit(cache=True, nogil=True, error_model="numpy")  # type: ignore[untyped-decorator, unused-ignore]
    def step_players(
        players: Any,
        actions: Any,
        old: Any,
        new: Any,
        rewards: Any,
        ended: Any,
        facts: Any,
        final: Any,
        links: Any,
        episode: Any,
        rule: Any,
    ) -> int:
        width = old.shape[1] // 6
        chunks = episode.sizes_bytes.shape[0]
        about_to_end = min(stamp, 0)
        for i in range(players.shape[0]):
            player = players[i]
            rung = actions[i]
            last_utility = episode.utilities[player.chunk - 1, player.rung]
            arrival = next_chunk(player, rung, links, episode, rule)
            chunk = player.chunk
            utility = episode.utilities[chunk - 1, rung]
            rewards[i] = qoe.chunk_reward(
                utility, last_utility, arrival.stall_ms / 1000.0, episode.rebuf_penalty, episode.smooth_penalty
            )
            player.rung = rung
            if facts.shape[0] > 0:
                write_facts(facts, i, chunk, rung, last_utility, arrival, episode)
            ended[i] = chunk == chunks
            if chunk == chunks:
                write_observation(old, final, i, width, chunk, rung, arrival, episode)
                begin_video(player, new, i, width, links, episode, rule)
            else:
                write_observation(old, new, i, width, chunk, rung, arrival, episode)
            about_to_end += player.chunk == chunks - 1
        return about_to_end

    return reset_players, step_players


def source_stamp(*modules: Any) -> int:
    """A number that changes when any of the modules' sources does."""
    return zlib.crc32(b"".join(Path(module.__file__).read_bytes() for module in modules))


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator, unused-ignore]
def all_below(actions: npt.NDArray[np.int64], rungs: int) -> bool:
    """Whether every action is a rung."""
    wrong = 0
    for i in range(actions.shape[0]):
        wrong += (actions[i] < 0) | (actions[i] >= rungs)
    return wrong == 0


reset_players, step_players = _compile(source_stamp(rules, qoe))
