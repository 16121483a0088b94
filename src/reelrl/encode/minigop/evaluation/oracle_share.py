"""How much of what an oracle gains a real controller gains: BD-rates over the same base, and their quotient."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.encode.minigop.evaluation.encoder_modes import MODES
from reelrl.errors import ConfigError
from reelrl.report.bd_rate import Point, bd_rate
from reelrl.report.intervals import Interval, mean_interval, quotient_interval
from reelrl.report.verdicts import aligned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reelrl.encode.minigop.evaluate import MiniGopContestant
    from reelrl.encode.minigop.evaluation.rate_point import RatePoint
    from reelrl.report.interpolation import Method


@dataclass(frozen=True)
class Share:
    """Bits saved over the base, alone and as part of the oracle's, over the clips on which both have a figure.

    saved   percent of the base's bits at equal PSNR-Y; `share` is 1 where all of the oracle's saving is reached
    """

    contestant: str
    base: str
    oracle: str
    saved: Interval
    share: Interval
    clips: dict[str, float]

    def record(self) -> dict[str, Any]:
        return asdict(self) | {"saved": self.saved._asdict(), "share": self.share._asdict()}


def oracle_of(contestants: Sequence[MiniGopContestant], base: str) -> str:
    """The one contestant that knows too much; complains if there is none, or no such base."""
    oracles = [contestant.name for contestant in contestants if contestant.privileged]
    if len(oracles) != 1:
        raise ConfigError(f"a share of the gain of {oracles or 'no oracle'}; name one, such as direct-search")
    names = [contestant.name for contestant in contestants]
    if base not in names or base == oracles[0]:
        raise ConfigError(f"--share-over {base}: choose from {', '.join(name for name in names if name != oracles[0])}")
    return oracles[0]


def shares(points: Sequence[RatePoint], oracle: str, base: str, method: Method = "pchip") -> list[Share]:
    """One for every controller but the base, the oracle included, in the order of the points."""
    curves: dict[str, dict[str, list[Point]]] = {}
    for point in points:
        curve = curves.setdefault(point.contestant, {}).setdefault(point.clip, [])
        curve.append(Point(point.kbps, point.quality["psnr_y"]))
    saved = {
        name: {clip: _saved(curves[base][clip], curve, method) for clip, curve in by_clip.items()}
        for name, by_clip in curves.items()
        if name != base and name not in MODES
    }
    return [_share(name, base, oracle, saved) for name in saved]


def table(shares: Sequence[Share]) -> str:
    head = ["contestant", f"bits saved over {shares[0].base}, %", f"share of what {shares[0].oracle} saves", "clips"]
    rows = [
        [
            share.contestant,
            f"{share.saved.mean:+.2f} [{share.saved.low:+.2f}, {share.saved.high:+.2f}]",
            f"{share.share.mean:.0%} [{share.share.low:.0%}, {share.share.high:.0%}]",
            str(len(share.clips)),
        ]
        for share in shares
    ]
    return aligned([head, *rows])


def _saved(base: Sequence[Point], ours: Sequence[Point], method: Method) -> float | None:
    percent = bd_rate(base, ours, method).percent
    return None if percent is None else -percent


def _share(name: str, base: str, oracle: str, saved: dict[str, dict[str, float | None]]) -> Share:
    both = {
        clip: (own, best)
        for clip, own in saved[name].items()
        if own is not None and (best := saved[oracle][clip]) is not None
    }
    if not both:
        raise ConfigError(f"no clip has a BD-rate of both {name} and {oracle} over {base}; give more --qps")
    ours, best = np.array(list(both.values())).T
    return Share(
        contestant=name,
        base=base,
        oracle=oracle,
        saved=mean_interval(ours),
        share=quotient_interval(ours, best),
        clips={clip: own for clip, (own, _) in both.items()},
    )
