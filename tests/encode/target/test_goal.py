"""What a user may ask for."""

from __future__ import annotations

import pytest

from reelrl.encode.target.goal import QualityTarget
from reelrl.errors import ConfigError

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("text", "figure", "value"),
    [("vmaf=93", "vmaf.mean", 93), ("VMAF=93,P5", "vmaf.p5", 93), ("ssim=0.98,harmonic", "ssim.harmonic", 0.98)],
)
def test_a_target_is_a_metric_a_value_and_a_pooling(text: str, figure: str, value: float) -> None:
    target = QualityTarget.parse(text)
    assert (target.figure, target.value) == (figure, value)
    assert QualityTarget.parse(str(target)) == target


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("vmaf", "write it like vmaf=93"),
        ("vmaf=high", "write it like vmaf=93"),
        ("vmaf=130", "use 1 to 99.5"),
        ("ssim=40", "use 0.3 to 0.9999"),
        ("vmaf=93,median", "unknown pooling 'median'"),
        ("vmav=93", "unknown metric 'vmav'"),
        ("ssimulacra2=80", "in no filter of PyAV; use vmaf or xpsnr"),
    ],
)
def test_what_is_no_target_is_refused_with_what_to_write(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        QualityTarget.parse(text)
