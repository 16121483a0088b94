"""Fitting predictors of bits to lessons: the densities of the rule, and the net."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from reelrl.encode.live.bits import Density, RuleBits
from reelrl.encode.live.learned_bits import BitsNet, Inputs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.agents.spread_net import SpreadNetFit
    from reelrl.encode.live.frame_look import FrameLook
    from reelrl.encode.live.lessons import LiveLesson

_HELD_OUT = 4  # one clip in so many chooses the epoch
_ROUNDS, _DAMPING, _NUDGE = 60, 1e-2, 1e-4


def fit_density(lessons: Sequence[LiveLesson], *, afresh: bool) -> tuple[Density, float]:
    """The density that fits frames coded afresh, or the others, and what it is off by, in octaves (rms)."""
    rows = [
        (look.intra if afresh else look.inter, lesson.pixels, qp, np.log2(bits))
        for lesson in lessons
        for look, _, was_afresh, qp, bits in _frames(lesson)
        if was_afresh == afresh
    ]
    histograms = np.array([row[0] for row in rows], np.float64)
    pixels, qps, log2_bits = (np.array([row[k] for row in rows], np.float64) for k in (1, 2, 3))

    def off(values: NDArray[np.float64]) -> NDArray[np.float64]:
        density = _density(values)
        taken = (density.table()[qps.astype(int) - 1] * histograms).sum(1)
        found: NDArray[np.float64] = np.log2(density.floor + pixels * taken) - log2_bits
        return found

    values = np.array([-1.0, 0.7, 0.6, 7.5])
    for _ in range(_ROUNDS):  # Gauss-Newton, damped; frames that are far off count less
        now = off(values)
        slopes = np.stack([(off(values + _NUDGE * unit) - now) / _NUDGE for unit in np.eye(4)], axis=1)
        weighed = slopes / (1 + now**2)[:, None]
        step = np.linalg.solve(weighed.T @ slopes + _DAMPING * len(now) * np.eye(4), -weighed.T @ now)
        values = values + np.clip(step, -0.5, 0.5)
    return _density(values), float(np.sqrt(np.mean(off(values) ** 2)))


def _density(values: NDArray[np.float64]) -> Density:
    height, slope, start, floor = values.tolist()
    return Density(2**height, 2**slope, start, 2**floor)


def rule_errors(lessons: Sequence[LiveLesson]) -> NDArray[np.float64]:
    """What the rule was off by in octaves, frame by frame, with its corrections."""
    errors = []
    for lesson in lessons:
        rule = RuleBits(lesson.pixels)
        for look, layer, afresh, qp, bits in _frames(lesson):
            errors.append(np.log2(bits) - rule.predict(look, layer, afresh=afresh).log2_bits[qp - 1])
            rule.learn(qp, bits)
    return np.array(errors)


def examples(lessons: Sequence[LiveLesson]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(inputs at the QP that was used, octaves to add) of every frame."""
    given, wanted = [], []
    for lesson in lessons:
        inputs = Inputs(lesson.pixels)
        for look, layer, afresh, qp, bits in _frames(lesson):
            rows, base, _ = inputs.of(look, layer, afresh=afresh)
            given.append(rows[qp - 1].copy())
            wanted.append(np.log2(bits) - base[qp - 1])
            inputs.coded(qp, bits)
    return np.array(given, np.float32), np.array(wanted, np.float32)


def fit_net(lessons: Sequence[LiveLesson], settings: SpreadNetFit, seed: int) -> tuple[BitsNet, dict[str, float]]:
    """The net, and what it is off by on clips held out, in octaves (rms), beside the rule."""
    from reelrl.agents.spread_net import fit_spread_net

    names = np.random.default_rng(seed).permutation(sorted({lesson.clip for lesson in lessons})).tolist()
    held = set(names[: max(len(names) // _HELD_OUT, 1)])
    train, test = ([each for each in lessons if (each.clip in held) == side] for side in (False, True))
    seen, unseen = examples(train), examples(test)
    net = BitsNet(fit_spread_net(seen, unseen, settings, seed))
    off, rule = unseen[1] - net(unseen[0])[0], rule_errors(test)
    return net, {
        "frames": float(len(seen[1])),
        "net_rms": float(np.sqrt(np.mean(off**2))),
        "rule_rms": float(np.sqrt(np.mean(rule**2))),
        "net_p95": float(np.quantile(np.abs(off), 0.95)),
        "rule_p95": float(np.quantile(np.abs(rule), 0.95)),
    }


def _frames(lesson: LiveLesson) -> list[tuple[FrameLook, int, bool, int, int]]:
    return list(zip(lesson.looks, lesson.layers, lesson.afresh, lesson.qps, lesson.bits, strict=True))
