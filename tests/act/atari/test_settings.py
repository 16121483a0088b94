"""What cannot be right is refused with what was found; exploration falls as it should."""

from __future__ import annotations

from typing import Any

import pytest

from reelrl.act.atari.settings import AtariTraining, PlayerNetSettings, PlayerSettings, TraceOptimiserSettings
from reelrl.errors import ConfigError


@pytest.mark.parametrize(
    ("cls", "wrong", "message"),
    [
        (TraceOptimiserSettings, {"lr": 0.0}, "lr is 0.0"),
        (TraceOptimiserSettings, {"kappa": -1.0}, "kappa is -1.0"),
        (TraceOptimiserSettings, {"beta2": 1.0}, "beta2 is 1.0"),
        (PlayerNetSettings, {"hidden": ()}, "hidden is"),
        (PlayerNetSettings, {"sparsity": 1.0}, "sparsity is 1.0"),
        (PlayerNetSettings, {"pixel_layers": ((0, 3, 1),)}, "1 or more"),
        (PlayerSettings, {"gamma": 1.5}, "gamma is 1.5"),
        (PlayerSettings, {"epsilon": (1.0, -0.1)}, "epsilon is"),
        (PlayerSettings, {"entropy": -1.0}, "entropy is -1.0"),
        (PlayerSettings, {"stack": 0}, "stack is 0"),
        (AtariTraining, {"frames": 0}, "frames is 0"),
    ],
)
def test_what_cannot_be_right_is_refused(cls: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        cls(**wrong)


def test_the_share_of_random_actions_falls_and_stays() -> None:
    settings = PlayerSettings(epsilon=(1.0, 0.1), epsilon_frames=100)
    assert [settings.epsilon_at(frame) for frame in (0, 50, 100, 1000)] == pytest.approx([1.0, 0.55, 0.1, 0.1])
