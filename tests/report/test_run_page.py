"""`reel report`: a page from the run folders of any stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl.cli.main import main
from reelrl.content.pictures import save_png
from reelrl.content.sources import open_clip
from reelrl.content.write.film import write_film
from reelrl.report.run_page import MOST_POINTS, curve
from reelrl.runs.folder import Run
from reelrl.see.train import AutoEncoderTraining
from reelrl.stream.train import AbrTraining
from tests.report.test_page import outside_sources

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def logged(root: Path, seed: int) -> Run:
    with Run.create(root, AbrTraining(), stage="abr", name="abr-ppo", seed=seed, tensorboard=False) as run:
        for step in range(1, 6):
            run.log_metrics(step * 100, {"score": 0.1 * step * (seed + 1), "loss": 1 / step})
        run.mark_ended("done")
        return run


def test_runs_of_any_kind_are_on_one_page_with_what_they_left(run_root: Path, tmp_path: Path) -> None:
    first, second = logged(run_root, 0), logged(run_root, 1)
    settings = AutoEncoderTraining(source="ale:Breakout")
    with Run.create(run_root, settings, stage="autoencoder", name="see", tensorboard=False) as other:
        pictures = np.random.default_rng(0).integers(0, 255, (4, 48, 64, 3), np.uint8)
        write_film(other.new_artifact("film.mp4"), pictures, 10.0)
        save_png(other.new_artifact("embedding.png"), pictures[0])
        other.new_artifact("broken.png").write_bytes(b"no picture")
    runs = [str(run.folder) for run in (first, second, other)]
    assert main(["report", *runs, "-o", str(tmp_path / "report")]) == 0
    page = (tmp_path / "report/index.html").read_text()
    assert outside_sources(page) == []
    for words in ("0001-abr-ppo", "0003-see", "How abr learned", "<td>0.5</td>", "<td>1</td>", "cannot be read"):
        assert words in page
    assert page.count('src="data:image/png') == 1
    film = tmp_path / "report/0003-see-film.mp4"
    assert f'src="{film.name}"' in page
    assert open_clip(str(film)).frame_count == 4


def test_a_curve_is_thinned_and_keeps_its_ends() -> None:
    records: list[dict[str, Any]] = [{"step": step, "score": step / 7} for step in range(10_001)]
    records += [{"step": 5}, {"score": None, "step": 6}]
    points = curve(records, "score")
    assert len(points) <= MOST_POINTS + 1
    assert points[0] == (0.0, 0.0)
    assert points[-1] == (10_000.0, 10_000 / 7)
    assert curve(records, "absent") == []


def test_what_is_no_run_is_told_and_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "-o", str(tmp_path / "page")]) == 1
    assert "no run at" in capsys.readouterr().err
    assert not (tmp_path / "page").exists()
