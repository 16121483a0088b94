from __future__ import annotations

import json
import signal
import subprocess
import sys
from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reelrl import names
from reelrl.cli.demo import PARTS
from reelrl.cli.main import main
from reelrl.content import open_clip
from reelrl.encode import EncoderSettings, encode_clip
from reelrl.encode.demo import measure as demo
from reelrl.encode.demo import rate
from reelrl.encode.demo.page import choose_windows
from reelrl.report.demo_part import DemoPart
from reelrl.report.page import section
from reelrl.see import demo as see
from reelrl.see.measures.baselines import FIGURES
from tests.report.test_page import checked, outside_sources
from tests.waiting import HANG_S

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.encode import Encoded

pytestmark = pytest.mark.slow

FRAMES = 8
CLIP = "generated:street?size=160x128&seed=1"
STILL = ["--clip", "generated:talk?size=128x96", "--frames", "1"]
ARGUMENTS = ["demo", "--only", "encode", "--clip", CLIP, "--frames", str(FRAMES)]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """The folder of a real, small demo, and the figures it printed."""
    folder = tmp_path_factory.mktemp("demo")
    child = subprocess.run(
        [sys.executable, "-W", "error", "-m", "reelrl.cli.main", *ARGUMENTS, "--out", str(folder), "--json"],
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert child.returncode == 0, child.stderr
    return folder, json.loads(child.stdout)


def test_the_page_is_whole_and_fetches_nothing_from_outside(made: tuple[Path, dict[str, Any]]) -> None:
    folder, _ = made
    markup = (folder / "index.html").read_text(encoding="utf-8")
    assert outside_sources(markup) == []
    beside = [found["src"] for name, found in checked(markup) if name == "video"]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*map(str, beside), "index.html", "parts"])


def test_the_page_shows_the_figures_that_are_printed(made: tuple[Path, dict[str, Any]]) -> None:
    folder, printed = made
    assert printed["page"] == str(folder / "index.html")
    markup = (folder / "index.html").read_text(encoding="utf-8")
    for trial in printed["trials"]:
        for way in ("plain", "zero", "mapped"):
            assert f"<td>{trial[way]['psnr_y']['moving']:.2f}</td>" in markup
        for point in trial["points"]:
            assert f"QP {point['qp']}: {point['kbps']:.1f} kbps, {point['psnr_y']:.2f} dB</title>" in markup


def test_videos_play_and_are_as_large_as_the_page_says(made: tuple[Path, dict[str, Any]]) -> None:
    folder, printed = made
    for trial in printed["trials"]:
        for way, file in (("plain", "plain"), ("mapped", "map")):
            with av.open(str(folder / f"{trial['backend']}-{file}.mp4")) as video:
                packets = [packet.size for packet in video.demux(video=0) if packet.size]
                assert len(packets) == FRAMES
                # A container drops the delimiters that begin each of the encoder's packets.
                assert 0 <= trial[way]["bytes"] - sum(packets) <= 2 * FRAMES


def test_the_map_moves_quality_at_about_the_same_size(made: tuple[Path, dict[str, Any]]) -> None:
    for trial in made[1]["trials"]:
        plain, mapped = trial["plain"], trial["mapped"]
        assert abs(mapped["bytes"] / plain["bytes"] - 1) < 0.05
        gain, price = (mapped["psnr_y"][part] - plain["psnr_y"][part] for part in ("moving", "elsewhere"))
        assert gain > price
        assert trial["backend"] != "aom" or trial["zero"]["bytes"] == plain["bytes"]


def test_more_bits_buy_more_quality(made: tuple[Path, dict[str, Any]]) -> None:
    for trial in made[1]["trials"]:
        for figure in ("kbps", "psnr_y"):
            values = [point[figure] for point in trial["points"]]
            assert values == sorted(values, reverse=True)


def test_text_ends_with_the_page_and_the_next_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "TRIES", 1)
    small = ["--clip", "generated:street?size=128x96", "--frames", "3"]
    asked = ["demo", "--only", "encode", *small, "--out", str(tmp_path)]
    assert main(asked) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["part", "clip", "curve", "curve", "map", "map", "page", "next"]
    assert lines[-2].split()[1] == str(tmp_path / "index.html")
    page = (tmp_path / "index.html").read_bytes()
    monkeypatch.setattr(demo, "measure", None)  # whoever encodes now fails
    assert main(asked) == 0
    again = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("1 of 1   about 15 s left")
    assert again == [lines[0].replace("about 15 s left", "made before"), *lines[1:]]
    assert (tmp_path / "index.html").read_bytes() == page
    with pytest.raises(TypeError):
        main([*asked, "--again"])
    (tmp_path / "aom-map.mp4").unlink()
    with pytest.raises(TypeError):
        main(asked)


def test_a_folder_that_cannot_be_written_is_refused_before_anything_is_encoded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["demo", "--out", str(tmp_path / "file" / "demo")]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "cannot write to" in captured.err


def test_a_clip_without_motion_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--only", "encode", *STILL, "--out", str(tmp_path)]) == 1
    assert "nothing moves in generated:talk" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
def test_a_part_that_fails_leaves_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", *STILL, "--out", str(tmp_path), "--json"]) == 1
    record = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in record["rates"]][-1] == "rate-model"
    assert abs(record["rates"][-1]["off_percent"]) < 2
    assert record["see"]["psnr"] > record["see"]["mean_frame_psnr"]
    assert "nothing moves in generated:talk" in record["left_out"]["encode"]
    assert len(record["viewings"]) == 3
    page = (tmp_path / "index.html").read_text()
    assert "Left out: encode" in page
    assert outside_sources(page) == []


@pytest.mark.long
def test_a_doom_team_is_filmed_and_does_better_than_who_does_not_look(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vizdoom")
    assert main(["demo", "--only", "act", "--out", str(tmp_path), "--json"]) == 0
    played = json.loads(capsys.readouterr().out)["doom"]
    returns = played["returns"]
    assert returns["the trained team"] > max(returns["chance"], returns["turn and shoot, blind"])
    page = (tmp_path / "index.html").read_text()
    assert outside_sources(page) == []
    [film] = [str(found["src"]) for name, found in checked(page) if name == "video"]
    with av.open(str(tmp_path / film)) as video:
        assert sum(1 for _ in video.decode(video=0)) > 30


@pytest.mark.long
def test_the_net_that_ships_knows_better_than_chance_who_is_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("vizdoom")
    assert main(["demo", "--only", "locate", "--out", str(tmp_path), "--json"]) == 0
    choices = json.loads(capsys.readouterr().out)["location"]
    assert all(
        choices["the net, by all views"][head] > choices["chance"][head] for head in ("mates_now", "enemies_now")
    )
    page = (tmp_path / "index.html").read_text()
    assert outside_sources(page) == []
    [film] = [str(found["src"]) for name, found in checked(page) if name == "video"]
    with av.open(str(tmp_path / film)) as video:
        assert sum(1 for _ in video.decode(video=0)) > 300


def test_ctrl_c_leaves_no_page(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "reelrl.cli.main", "demo", "--out", str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline().startswith("part   encode")
        child.send_signal(signal.SIGINT)
        assert child.wait(HANG_S) == 130
        assert child.stderr.read() == "stopped  interrupted by Ctrl+C or SIGTERM\n"
    assert list(tmp_path.iterdir()) == []


def make_noted(made: list[str], name: str, *_: object) -> DemoPart:
    made.append(name)
    return DemoPart(f"about {name}", "", [section(f"about {name}", "")], {}, [])


def test_one_page_has_all_parts_and_links_to_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    for name in PARTS:
        monkeypatch.setitem(names.DEMO_PARTS, name, f"tests.cli.test_demo:make_{name}")
        monkeypatch.setitem(globals(), f"make_{name}", partial(make_noted, made, name))
    assert main(["demo", "--skip", "doom", "see", "--out", str(tmp_path)]) == 0
    assert made == ["encode", "rate", "stream"]
    lines = capsys.readouterr().out.splitlines()
    assert all(line.endswith(" left") for line in lines if line.startswith("part "))
    assert main(["demo", "--out", str(tmp_path)]) == 0
    assert made == ["encode", "rate", "stream", "see", "act", "locate"]
    found = checked((tmp_path / "index.html").read_text())
    anchors = [str(each["href"]) for name, each in found if name == "a"]
    assert anchors == [f"#{name}" for name in PARTS[1:]]
    assert {str(each["id"]) for _, each in found if "id" in each} == set(PARTS)
    page = (tmp_path / "index.html").read_text()
    assert main(["demo", "--only", "see", "--again", "--out", str(tmp_path)]) == 0
    assert made[6:] == ["see"]
    assert (tmp_path / "index.html").read_text() == page
    assert main(["demo", "--only", "see", "--skip", "encode", "--out", str(tmp_path)]) == 0
    assert "about encode" not in (tmp_path / "index.html").read_text()


def test_a_demo_of_nothing_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--only", "encode", "--skip", "encode", "--out", str(tmp_path / "demo")]) == 1
    assert "leave no part of the demo" in capsys.readouterr().err
    assert not (tmp_path / "demo").exists()


@settings(deadline=None)
@given(st.integers(8, 8 * 63).map(lambda eighths: eighths / 8))
def test_whole_qps_that_take_turns_average_to_what_was_asked(average: float) -> None:
    qps = [demo.qp_of_frame(average, number) for number in range(64)]
    assert sum(qps) / 64 == average
    assert max(qps) - min(qps) <= 1


@settings(deadline=None)
@given(st.floats(500, 50_000), st.floats(0.05, 0.2))
def test_the_search_meets_any_size_that_can_be_met(target_bytes: float, slope: float) -> None:
    def encode(qp: float) -> Encoded:
        size: Any = SimpleNamespace(size_bytes=5_000 * np.exp(-slope * (qp - 40)))
        return size  # type: ignore[no-any-return]

    reachable = 5_000 * np.exp(-slope * 22) < target_bytes < 5_000 * np.exp(slope * 38)
    best = demo.matched(encode, round(target_bytes), 40)
    assert 1 <= best.qp <= 63
    assert not reachable or abs(best.coded.size_bytes / target_bytes - 1) < slope / 8


def test_superblock_errors_add_up_to_the_encoders_own() -> None:
    clip = open_clip("generated:street?size=160x96&frames=2").load()
    way = demo.Way(encode_clip(clip, EncoderSettings(backend="aom")), 40)
    assert [int(errors.sum()) for errors in way.sse] == [packet.sse[0] for packet in way.coded.packets if packet.sse]
    everywhere = np.ones((2, clip.superblock_count), bool)
    assert way.psnr(everywhere) == pytest.approx(way.coded.psnr_y_of_mean)


def test_the_enlarged_parts_are_chosen_by_the_source() -> None:
    clip = open_clip("generated:street?frames=8").load()
    motion = demo.find_motion(clip)
    windows = choose_windows(clip, motion)
    assert 2 <= windows.frame < 6
    moving = motion.moving[windows.frame].reshape(clip.grid).repeat(64, 0).repeat(64, 1)
    for (x, y, width, height), moves in ((windows.moving, True), (windows.still, False)):
        assert x + width <= clip.width
        assert y + height <= clip.height
        assert bool(moving[y : y + height, x : x + width].any()) is moves


def test_what_is_spent_over_time_ends_at_what_the_whole_took() -> None:
    trial = rate.RateTrial("any", measured_sizes([9000, 100, 400, 500]), kbps=80)
    assert rate.spent_over_time(trial, frame_s=0.25) == [
        pytest.approx((0.5, 182.0)),
        pytest.approx((1.0, 100 * trial.encode.kbps / 80)),
    ]


def measured_sizes(frame_bytes: list[int]) -> Any:
    """An encode of a second with these frames."""
    return SimpleNamespace(frame_bytes=frame_bytes, kbps=sum(frame_bytes) * 8 / 1000)


def test_a_model_is_scored_before_it_learns_from_a_frame() -> None:
    watched = see.watch("generated:street?size=64x64", 0, 3, (1, 3))
    assert watched.scores.shape == (3, len(FIGURES))
    assert [guess.number for guess in watched.guesses] == [1, 3]
    first = watched.guesses[0]
    error = (first.frame.astype(float) - first.picture.astype(float)) / 255
    assert first.psnr_db == pytest.approx(-10 * np.log10(np.square(error).mean()), abs=0.1)
