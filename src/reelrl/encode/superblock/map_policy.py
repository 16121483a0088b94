"""A map policy of a dozen numbers, saved as a small YAML file.

features of a frame ──► map_inputs ──► weights ──► offsets    weaker after the first frame, none where little changes

The inputs are standardised within each frame, so a policy carries over to clips and resolutions it has not seen. It
moves bits in space only: the weight of `constant`, which would move whole frames, stays zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import yaml

from reelrl.encode.codecs.settings import MAX_OFFSET
from reelrl.encode.features import MOTION_RESIDUAL, clip_features
from reelrl.encode.superblock.maps import MAP_FEATURES, action_of, map_inputs, map_of, named_weights
from reelrl.encode.superblock.measure import weights_of
from reelrl.errors import ConfigError, ContentError, shown
from reelrl.names import did_you_mean
from reelrl.settings import yaml_text
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from reelrl.content.clip import Clip
    from reelrl.encode.superblock.maps import MapEpisode
    from reelrl.encode.superblock.measure import Maps

    Floats = NDArray[np.float32]

FORMAT = "reelrl-superblock-map-1"
_REFERENCE_QP = 40


def largest_weight(reach: int) -> float:
    """Of a policy whose offsets may reach so far: two standard deviations of an input are then far beyond it."""
    return 2.0 * reach / MAX_OFFSET


@dataclass(frozen=True)
class MapPolicy:
    """Weights of features, and when to send nothing.

    weights       by the names in MAP_FEATURES; those not named are zero
    inter_share   of the weights that counts in frames after the first: what a first frame spends serves all others
    least_change  levels at QP 40, doubling every ten QPs: frames whose motion-compensated difference is smaller on
                  average are sent without a map, because in nearly empty frames the map itself is what costs
    abstains      it was not seen to pay on frames beside those it was fitted on: no map at all
    importance    the weighing (`moving`, `centre`, ...) whose superblock means are an input, if any
    reach         largest offset in QP steps; beyond 3 encoders must be able to (`Capabilities.largest_offset`)
    facts         how it came about
    """

    weights: dict[str, float]
    inter_share: float = 1.0
    least_change: float = 0.0
    abstains: bool = False
    importance: str | None = None
    reach: int = MAX_OFFSET
    facts: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (type(self.reach) is int and self.reach >= 1):
            raise ConfigError(f"reach = {shown(self.reach)} in a map policy; use a whole number of QP steps, 1 or more")
        most = largest_weight(self.reach)
        for name, value in self.weights.items():
            if name not in MAP_FEATURES:
                raise ConfigError(f"unknown feature {name!r} in a map policy{did_you_mean(name, MAP_FEATURES)}")
            if not (_is_number(value) and abs(value) <= most):
                raise ConfigError(f"weight of {name} is {shown(value)}; use -{most:g} to {most:g}")
        for name in ("inter_share", "least_change"):
            value = getattr(self, name)
            if not (_is_number(value) and value >= 0):
                raise ConfigError(f"{name} = {shown(value)} in a map policy; use a number, 0 or more")
        for name, kind in (("abstains", bool), ("importance", str | None), ("facts", dict)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ConfigError(f"{name} = {shown(value)} in a map policy; fit it anew")

    def maps_of_clip(self, clip: Clip, qp: int) -> Maps:
        """The map of each frame of a clip."""
        importance = weights_of(clip, self.importance).blocks if self.importance else None
        return self.maps(clip_features(clip), clip.grid, qp, importance)

    def maps(self, features: Floats, grid: tuple[int, int], qp: int, importance: Floats | None = None) -> Maps:
        """The map of each frame from features [frames, 8, superblocks]; None where none is sent."""
        if self.abstains:
            return [None] * len(features)
        inputs, weights = map_inputs(features, grid, importance), named_weights(**self.weights)
        empty = features[:, MOTION_RESIDUAL].mean(1) < self.least_change * 2 ** ((qp - _REFERENCE_QP) / 10)
        maps = [map_of(inputs[0], weights, self.reach)]
        maps += [map_of(each, self.inter_share * weights, self.reach) for each in inputs[1:]]
        return [
            offsets if offsets.any() and (number == 0 or not empty[number]) else None
            for number, offsets in enumerate(maps)
        ]

    def save(self, path: str | Path) -> None:
        """Write the policy as YAML."""
        content = {"format": FORMAT, **{key: value for key, value in vars(self).items() if value is not None}}
        write_atomic(path, yaml.safe_dump(content, sort_keys=False, width=110))

    @classmethod
    def load(cls, path: str | Path) -> MapPolicy:
        """The policy in a YAML file; nothing in it is executed."""
        content = yaml_text.read(path, error=ContentError)
        if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
            raise ContentError(f"{path} is no map policy: it does not say 'format: {FORMAT}'; fit it anew")
        unknown = [key for key in content if key not in cls.__dataclass_fields__]
        if unknown or not isinstance(content.get("weights"), dict):
            raise ContentError(f"{path}: {f'unknown {shown(unknown[0])}' if unknown else 'no weights'}; fit it anew")
        return cls(**content)


class FittedMap:
    """A policy as a controller."""

    privileged = False

    def __init__(self, policy: MapPolicy | str | Path) -> None:
        self.policy = policy if isinstance(policy, MapPolicy) else MapPolicy.load(policy)
        if self.policy.reach > MAX_OFFSET:
            raise ConfigError(f"offsets up to {self.policy.reach}; the environment's actions reach {MAX_OFFSET}")

    @property
    def env_options(self) -> dict[str, Any]:
        """Arguments of `SuperblockQpEnv`: the weighing that is an input of the policy, if any."""
        return {"weights": self.policy.importance} if self.policy.importance else {}

    def reset(self, seed: int, episode: MapEpisode) -> None:  # noqa: ARG002 - the protocol's
        """Take the clip's features."""
        self._maps = iter(self.policy.maps(episode.features, episode.grid, episode.settings.qp, episode.weights))

    def act(self, observation: Any) -> NDArray[np.int64] | None:  # noqa: ARG002 - the protocol's
        """The map of the next frame."""
        offsets = next(self._maps)
        return None if offsets is None else action_of(offsets)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
