from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.content.quality import plane_ssim
from reelrl.errors import ConfigError, ContentError
from reelrl.evaluation import autoencoder_tables as tables
from reelrl.evaluation.autoencoder_race import Results, contestant_settings, entries, marks, race
from reelrl.evaluation.autoencoder_scores import Scores, gaussian_ssim, psnr_db
from reelrl.evaluation.autoencoder_yardsticks import HELD_OUT_SEED, NAMES, Yardsticks, through_27x27

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def random_frames(count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 3, 224, 224, generator=torch.Generator().manual_seed(seed))


def test_ssim_is_that_of_the_rest_of_the_project() -> None:
    a, b = random_frames(2)
    a, b = (a * 255).round(), (0.7 * a * 255 + 0.3 * b * 255).round()
    ours = float(gaussian_ssim(a[None] / 255, b[None] / 255))
    planes = zip(a.numpy().astype(np.uint8), b.numpy().astype(np.uint8), strict=True)
    assert ours == pytest.approx(np.mean([plane_ssim(*pair) for pair in planes]), abs=1e-4)


@given(st.floats(0.01, 0.5), st.integers(1, 4))
@settings(max_examples=10, deadline=None)
def test_a_constant_error_is_measured_as_it_is(error: float, count: int) -> None:
    scores = Scores(1)
    background = torch.full((1, 3, 224, 224), 0.5)
    frame = background.clone()
    frame[..., :10, :10] = 1.0
    for _ in range(count):
        picture = frame.clone()
        picture[..., :10, :10] -= error  # wrong in front only
        scores.add(picture, frame, background, background)
    (figures,) = scores.figures()
    share = 100 / 224**2
    assert figures["foreground_share"] == pytest.approx(share)
    assert figures["mse"] == pytest.approx(error**2 * share, rel=1e-3)
    assert figures["l1"] == pytest.approx(error * share, rel=1e-3)
    assert figures["foreground_psnr_db"] == pytest.approx(-20 * math.log10(error), abs=1e-2)
    assert figures["changed_psnr_db"] == pytest.approx(-20 * math.log10(error), abs=1e-2)


def test_what_is_not_a_number_is_none() -> None:
    scores = Scores(1)
    still = torch.zeros(1, 3, 224, 224)
    scores.add(torch.full_like(still, math.nan), still, still, still)
    (figures,) = scores.figures()
    assert [figures[name] for name in ("mse", "psnr_db", "foreground_psnr_db")] == [None] * 3
    assert psnr_db(0.0) == 100.0


def test_yardsticks_know_only_the_past_except_the_resize() -> None:
    yardsticks, frames = Yardsticks(), random_frames(3)
    for frame in frames[:2]:
        yardsticks.update(frame[None])
    mean, last, small = yardsticks.guess(frames[2:])
    assert torch.allclose(mean, frames[:2].mean(dim=0), atol=1e-6)
    assert torch.equal(last, frames[1])
    assert torch.equal(small[None], through_27x27(frames[2:]))
    flat = torch.full((1, 3, 224, 224), 0.3)
    assert torch.allclose(through_27x27(flat), flat, atol=1e-6), "a flat picture survives 27x27"


def test_marks_end_with_the_last_frame() -> None:
    assert marks(10_000) == [100, 200, 500, 1000, 2000, 5000, 10_000]
    assert marks(30) == [30]
    assert marks(700) == [100, 200, 500, 700]


def test_contestants_are_named_by_optimiser_or_config_and_changed_by_plus() -> None:
    changed = contestant_settings("adam+optimiser.lr=0.004+loss.l1=0")
    assert (changed.optimiser.name, changed.optimiser.rate, changed.loss.l1) == ("adam", 0.004, 0)
    assert contestant_settings("config:obgd").optimiser.name == "obgd"
    for wrong, hint in (("rmsprob", "rmsprop"), ("config:abr-quick", "nothing about"), ("config:nobody", "nobody")):
        with pytest.raises(ConfigError, match=hint):
            contestant_settings(wrong)


def test_a_race_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    path, games = tmp_path / "race.json", ["ale:Breakout"]
    race(entries(["adam"], games, 1), 12, Results(path, {}), keep=tmp_path / "kept", held_out=2)
    first = json.loads(path.read_bytes())["rows"]
    assert {row["contestant"] for row in first} == {"adam", *NAMES}
    assert (tmp_path / "kept" / "Breakout-adam-0.safetensors").exists()
    both = entries(["adam", "sgd"], games, 1)
    assert [entry.contestant for entry in Results(path, {}).missing(both, 12)] == ["sgd"]
    race(both, 12, Results(path, {}), held_out=2)
    second = {row["contestant"]: row for row in json.loads(path.read_bytes())["rows"]}
    assert len(second) == 2 + len(NAMES)
    for row in first:  # the yardsticks were scored anew on the same frames
        assert second[row["contestant"]]["at"] == row["at"]
    with pytest.raises(ConfigError, match="other settings"):
        Results(path, {}).missing([entries(["adam"], games, 1)[0].__class__("adam", games[0], both[1].settings)], 12)


def test_a_race_refuses_what_it_cannot_run(tmp_path: Path) -> None:
    wanted = entries(["adam"], ["ale:Breakout"], 1)
    with pytest.raises(ConfigError, match="held-out"):
        race(wanted, 1, Results(tmp_path / "a.json", {}), seed=HELD_OUT_SEED)
    (tmp_path / "b.json").write_text("[]")
    with pytest.raises(ContentError, match="no results of ours"):
        Results(tmp_path / "b.json", {})


def test_tables_put_the_best_first_and_tell_the_spread() -> None:
    def row(name: str, seed: int | None, mse: float) -> dict[str, object]:
        figures = {"mse": mse, "foreground_psnr_db": None}
        return {"contestant": name, "source": "ale:Breakout", "seed": seed, "at": {"1000": figures}}

    rows = [row("slow", 0, 0.004), row("quick", 0, 0.001), row("quick", 1, 0.002)]
    assert tables.table(rows, 1000, "mse") == (
        ["contestant", "Breakout"],
        [["quick", "1.500 (1.000-2.000)"], ["slow", "4.000"]],
    )
    assert "| quick | 1.500 (1.000-2.000) |" in tables.markdown(rows)


def test_a_race_needs_neither_numba_nor_opencv_nor_av_nor_tensorboard() -> None:
    program = (
        "import sys, reelrl.evaluation.autoencoder_race, reelrl.evaluation.autoencoder_tables\n"
        "import reelrl.cli.compare_autoencoder\n"
        "print(sorted({'numba', 'cv2', 'av', 'tensorboard', 'matplotlib', 'PIL'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert found.stdout.strip() == "[]"
