"""Text is found where there is some, and nowhere else; without the detector there is one line that says so."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from reelrl.content.generated.clips import generated_clip
from reelrl.encode.superblock import text_regions
from reelrl.encode.superblock.weighting import LEAST, weigh_clip
from reelrl.errors import MissingExtra


@pytest.mark.skipif(find_spec("rapidocr_onnxruntime") is None, reason="needs the extra `text`")
def test_a_screen_has_text_and_a_face_has_none() -> None:
    clips = [generated_clip(kind, size=(320, 192), frames=1) for kind in ("screen", "talk")]
    screen, talk = (weigh_clip(clip, "text") for clip in clips)
    assert screen.blocks.max() > 1.5 * screen.blocks.min()
    assert {int(value) for value in talk.frame(0).ravel()} == {round(255 * LEAST)}


def test_a_missing_detector_is_named_with_the_way_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_regions, "find_spec", lambda _: None)
    text_regions._loaded.cache_clear()
    with pytest.raises(MissingExtra, match=r"reelrl\[text\]"):
        text_regions.TextDetector()
    text_regions._loaded.cache_clear()
