"""What the superblock environment is given, checked before any encoder sees it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl import names
from reelrl.encode.codecs.control import check_maps_are_obeyed
from reelrl.encode.codecs.settings import MAX_OFFSET
from reelrl.encode.superblock.maps import MAP_FEATURES
from reelrl.encode.superblock.rewards import REWARDS
from reelrl.errors import ConfigError, InvalidStateError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.encode.codecs.settings import EncoderSettings
    from reelrl.encode.superblock.rewards import Reward

LEVELS = 2 * MAX_OFFSET + 1
"""Choices per superblock."""


def checked_encoder(settings: EncoderSettings, target_kbps: float | None) -> EncoderSettings:
    """Settings under which the encoder obeys maps and answers each frame at once."""
    if settings.steers_rate:
        raise ConfigError(
            f"rate_control = {settings.rate_control}: the encoder would ignore every map; use cqp, and target_kbps= of "
            "the environment to hold a bitrate"
        )
    check_maps_are_obeyed(settings)
    if not settings.low_delay:
        raise ConfigError("structure = random_access: a step needs its frame's packet at once; use low_delay")
    if target_kbps is not None:
        if not (math.isfinite(target_kbps) and target_kbps > 0):
            raise ConfigError(f"target_kbps = {target_kbps}; a bitrate is above zero")
        settings = replace(settings, picture_qp=True)
    return replace(settings, recon=True)


def checked_lambda(value: float) -> float:
    if not (math.isfinite(value) and value >= 0):
        raise ConfigError(f"lambda_rd = {value}; it is finite and not negative")
    return float(value)


def reward_of(reward: str | Reward) -> Reward:
    if isinstance(reward, str):
        if reward in REWARDS:
            return REWARDS[reward]
        if ":" in reward:
            found: Reward = names.resolve({}, reward, foreign=True)
            return found
        raise ConfigError(f"unknown reward {reward!r}{names.did_you_mean(reward, REWARDS)}")
    if not callable(reward):
        raise ConfigError(f"reward is a {type(reward).__name__}; give a name or a function of an Outcome")
    return reward


def checked_levels(action: Any, superblocks: int) -> NDArray[np.int32]:
    """Offsets of an action of 0 to 6 per superblock."""
    values = _as_array(action)
    if values.shape != (superblocks,):
        raise ConfigError(f"the action has shape {values.shape}, this clip has {superblocks} superblocks: one each")
    if values.dtype.kind not in "iu":
        raise ConfigError(f"the action is {values.dtype}; give whole numbers from 0 to {LEVELS - 1}")
    if values.min() < 0 or values.max() >= LEVELS:
        raise ConfigError(f"the action goes from {values.min()} to {values.max()}; 0 to {LEVELS - 1} is allowed")
    offsets: NDArray[np.int32] = values.astype(np.int32) - MAX_OFFSET
    return offsets


def checked_weights(action: Any) -> NDArray[np.float32]:
    values = _as_array(action)
    if values.shape != (len(MAP_FEATURES),):
        raise ConfigError(f"the action has shape {values.shape}; give {len(MAP_FEATURES)} weights")
    if values.dtype.kind not in "iuf":
        raise ConfigError(f"the action is {values.dtype}; give numbers from -1 to 1")
    if np.abs(values).max() > 1 + 1e-6:
        raise ConfigError(f"the action goes from {values.min()} to {values.max()}; -1 to 1 is allowed")
    return values.astype(np.float32)


def _as_array(action: Any) -> NDArray[Any]:
    try:
        values = np.asarray(action)
    except ValueError as error:  # ragged lists
        raise ConfigError(f"the action is no array: {error}") from None
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        raise InvalidStateError(f"the action holds {values[~np.isfinite(values)].ravel()[0]}; actions are finite")
    return values
