from __future__ import annotations

import json
import math
import multiprocessing
import signal
import subprocess
import sys
import time
from contextlib import closing
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl.content.feeds.kinds import open_feed
from reelrl.content.quality import plane_ssim
from reelrl.errors import ConfigError, ContentError
from reelrl.runs.checkpoints import Checkpoints
from reelrl.runs.interrupts import Interrupted
from reelrl.runs.saving import Saving
from reelrl.see.frames.source import to_input
from reelrl.see.learner import StreamingAutoEncoder
from reelrl.see.measures.baselines import StreamBaselines, through_small
from reelrl.see.measures.scores import Scores, Ssim, psnr_db
from reelrl.see.measures.trained import HELD_OUT_SEED, background_of
from reelrl.see.race import one_pass as autoencoder_pass
from reelrl.see.race import tables
from reelrl.see.race.contestants import contestant_settings, contestants
from reelrl.see.race.one_pass import NAMES, Pass
from reelrl.see.race.results import Results, marks
from reelrl.see.race.run import race
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


def random_frames(count: int, seed: int = 0) -> torch.Tensor:
    return torch.rand(count, 3, 224, 224, generator=torch.Generator().manual_seed(seed))


def test_ssim_is_that_of_the_rest_of_the_project() -> None:
    a, b = random_frames(2)
    a, b = (a * 255).round(), (0.7 * a * 255 + 0.3 * b * 255).round()
    ours = float(Ssim(b[None] / 255)(a[None] / 255).mean())
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
        scores.add([picture], frame, background, background)
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
    scores.add([torch.full_like(still, math.nan)], still, still, still)
    (figures,) = scores.figures()
    assert [figures[name] for name in ("mse", "psnr_db", "foreground_psnr_db")] == [None] * 3
    assert psnr_db(0.0) == 100.0


def test_baselines_know_only_the_past_however_the_frames_are_cut_into_blocks() -> None:
    frames = random_frames(7)
    for sizes in ([7], [1] * 7, [3, 4]):
        baselines = StreamBaselines(224)
        ends = np.cumsum(sizes)
        found = [baselines.observe(frames[end - size : end]) for end, size in zip(ends, sizes, strict=True)]
        means, before = (torch.cat(parts) for parts in zip(*found, strict=True))
        assert torch.equal(before[1:], frames[:-1])
        for number in range(1, 7):
            assert torch.allclose(means[number], frames[:number].mean(dim=0), atol=1e-6)
    flat = torch.full((1, 3, 224, 224), 0.3)
    assert torch.allclose(through_small(flat), flat, atol=1e-6), "a flat picture survives 27x27"


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


@pytest.mark.long
def test_a_race_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    path, games = tmp_path / "race.json", ["ale:Breakout"]
    race(contestants(["adam"], games, 1), 12, Results(path, {}), save_to=tmp_path / "kept", held_out=2)
    first = json.loads(path.read_bytes())["rows"]
    assert {row["contestant"] for row in first} == {"adam", *NAMES}
    assert (tmp_path / "kept" / "12" / "Breakout-adam-0.safetensors").exists()
    both = contestants(["adam", "sgd"], games, 1)
    assert [contestant.name for contestant in Results(path, {}).missing(both, 12)] == ["sgd"]
    race(both, 12, Results(path, {}), held_out=2)
    second = {row["contestant"]: row for row in json.loads(path.read_bytes())["rows"]}
    assert len(second) == 2 + len(NAMES)
    for row in first:  # the baselines were scored anew on the same frames
        assert second[row["contestant"]]["at"] == row["at"]
    with pytest.raises(ConfigError, match=r"other settings than asked for now \(\w+\)"):
        Results(path, {}).missing(
            [contestants(["adam"], games, 1)[0].__class__("adam", games[0], both[1].settings)], 12
        )


SMALL = "+widths=[[2,2],[2,2],[2,2]]"


def test_a_race_scores_what_a_plain_loop_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frame by frame: show, score what comes before learning, learn. Blocks, windows and batches change nothing."""
    monkeypatch.setattr(autoencoder_pass, "BLOCK", 4)  # so that the window, frames 28 to 30, lies in two blocks
    (contestant,) = contestants([f"default{SMALL}"], ["ale:Breakout"], 1)
    path = tmp_path / "race.json"
    race([contestant], 30, Results(path, {}), held_out=2)
    rows = {row["contestant"]: row["at"]["30"] for row in json.loads(path.read_bytes())["rows"]}
    background = background_of(contestant.source)
    learner = StreamingAutoEncoder(contestant.settings)
    seen: list[torch.Tensor] = []
    errors: dict[str, list[tuple[float, float, float]]] = {name: [] for name in rows}
    for shot in islice(open_feed(contestant.source, 0).shots(), 30):
        frame = to_input(torch.from_numpy(shot.picture).permute(2, 0, 1))
        guesses = {
            contestant.name: learner.learn(frame[0], reset=shot.cut).reconstruction,
            "mean frame": torch.stack(seen).mean(dim=0) if seen else torch.zeros_like(frame),
            "previous frame": seen[-1] if seen else torch.zeros_like(frame),
            "27x27 resize": through_small(frame),
        }
        front = (frame - background).abs().amax(dim=1) > 0.1
        for name, picture in guesses.items():
            square = (picture - frame).square().mean(dim=1)
            errors[name].append((float(square.mean()), float((square * front).sum()), float(front.sum())))
        seen.append(frame)
    for name, found in rows.items():
        mse, front_square, front = np.array(errors[name][27:]).T
        assert found["mse"] == pytest.approx(mse.mean(), rel=1e-4)
        assert found["foreground_psnr_db"] == pytest.approx(psnr_db(front_square.sum() / front.sum()), abs=1e-3)


def small_race(folder: Path) -> None:
    """Saves at frames 14 and 28; the window of the only mark begins behind 27."""
    folder.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    wanted = contestants([f"default{SMALL}", f"obgd{SMALL}"], ["ale:Breakout"], 1)
    race(wanted, 30, Results(folder / "race.json", {}), save_to=folder / "kept", held_out=2, save_every=14)


def all_files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A race that nobody stopped."""
    folder = tmp_path_factory.mktemp("race") / "whole"
    small_race(folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("asked_by", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.long)])
def test_an_interrupted_race_is_saved_where_it_stands_and_goes_on_to_the_same_bits(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked_by: signal.Signals
) -> None:
    reached, places = Saving.reached, []

    def press_at_the_second_place(self: Saving, place: str, *args: Any, **how: Any) -> None:
        places.append(place)
        if len(places) == 2:
            signal.raise_signal(asked_by)
        reached(self, place, *args, **how)

    with monkeypatch.context() as patch:
        patch.setattr(Saving, "reached", press_at_the_second_place)
        with pytest.raises(Interrupted, match="frame 16"):
            small_race(tmp_path / "broken")
    assert list((tmp_path / "broken" / "race.state").glob("*-step-16"))
    small_race(tmp_path / "broken")
    assert all_files(tmp_path / "broken") == all_files(whole)


@pytest.mark.long
def test_a_race_that_is_killed_goes_on_to_the_same_bits(whole: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    state = broken / "race.state"
    racing = multiprocessing.get_context("spawn").Process(target=small_race, args=(broken,))
    racing.start()
    while not list(state.glob("*-step-28")):
        assert racing.is_alive(), "ended before it could be killed"
        time.sleep(0.001)
    racing.kill()
    racing.join()
    assert "held_out" not in (broken / "race.json").read_text()
    small_race(broken)
    assert not state.exists()
    assert all_files(broken) == all_files(whole)
    weights = [f"Breakout-{who}_widths=_2_2_2_2_2_2_-0.safetensors" for who in ("default", "obgd")]
    assert sorted(path.name for path in (whole / "kept" / "30").iterdir()) == weights


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_scores_what_the_cpu_scores_and_goes_on_too(tmp_path: Path) -> None:
    """While the steps are recorded as a graph, threads fetch the next frames of both games."""
    wanted = contestants([f"default{SMALL}", f"obgd{SMALL}"], ["ale:Breakout", "ale:Pacman"], 1)
    found = {}
    for device in ("cpu", "cuda"):
        path = tmp_path / f"{device}.json"
        race(wanted, 60, Results(path, {}), device=device, held_out=2, save_every=40)
        rows = json.loads(path.read_bytes())["rows"]
        found[device] = {(row["contestant"], row["source"]): row["at"]["60"]["mse"] for row in rows}
    assert found["cuda"] == pytest.approx(found["cpu"], rel=0.05)
    one = Pass(wanted[:1], 60, device="cuda", save_every=40)
    with closing(one.learn()) as blocks:
        assert 40 in blocks
    saved = Checkpoints(tmp_path / "state")
    saved.save(40, *one.state())
    again = Pass(wanted[:1], 60, device="cuda", save_every=40)
    checkpoint = saved.latest()
    assert checkpoint is not None
    assert again.resume(checkpoint)
    assert list(again.learn())[-1] == 60


def test_what_was_saved_of_another_race_is_not_gone_on_with(tmp_path: Path) -> None:
    path, state = tmp_path / "race.json", Checkpoints(tmp_path / "race.state")
    state.save(5, {}, {"about": "something else"})
    race(contestants([f"adam{SMALL}"], ["ale:Breakout"], 1), 6, Results(path, {}), held_out=2)
    assert {*json.loads(path.read_bytes())["rows"][0]["at"]} == {"6"}


def test_results_tell_every_command_that_made_them(tmp_path: Path) -> None:
    path = tmp_path / "race.json"
    for command in ("reel compare a", "reel compare b", "reel compare a"):
        Results(path, {"command": command}).write()
    assert json.loads(path.read_bytes())["facts"]["command"] == "reel compare a && reel compare b"


def test_settings_that_came_after_a_file_was_written_are_the_defaults(tmp_path: Path) -> None:
    path, (contestant,) = tmp_path / "race.json", contestants(["adam"], ["ale:Breakout"], 1)
    results = Results(path, {})
    results.add(contestant.key, 5, {}, {"optimiser": {"name": "adam"}})
    results.rows[contestant.key]["held_out"] = {}
    assert results.missing([contestant], 5) == []
    assert results.missing([contestant], 6) == [contestant]


def test_a_race_refuses_what_it_cannot_run(tmp_path: Path) -> None:
    wanted = contestants(["adam"], ["ale:Breakout"], 1)
    with pytest.raises(ConfigError, match="held-out"):
        race(wanted, 1, Results(tmp_path / "a.json", {}), seed=HELD_OUT_SEED)
    (tmp_path / "b.json").write_text("[]")
    with pytest.raises(ContentError, match="no results of ours"):
        Results(tmp_path / "b.json", {})
    with pytest.raises(ConfigError, match="device 'toaster' cannot be used"):
        race(wanted, 1, Results(tmp_path / "c.json", {}), device="toaster")


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


@pytest.mark.long
def test_a_race_needs_neither_numba_nor_opencv_nor_av_nor_tensorboard() -> None:
    program = (
        "import sys, reelrl.see.race.run, reelrl.see.race.tables\n"
        "import reelrl.cli.compare.autoencoder\n"
        "print(sorted({'numba', 'cv2', 'av', 'tensorboard', 'matplotlib', 'PIL'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=HANG_S)
    assert found.stdout.strip() == "[]"
