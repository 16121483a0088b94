"""`reel pretrain views` and `reel evaluate views`, as typed, on rooms with a colour each."""

from __future__ import annotations

import csv
import json
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from reelrl.act.recording.reader import MatchData
from reelrl.act.video.encoder import ClipShape, VideoEncoderSettings, frozen_video_encoder
from reelrl.act.views.net import ViewNet
from reelrl.cli.main import main
from reelrl.runs.folder import RunFolder
from tests.act.location.written_matches import write_matches

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow
ROWS = 100
SMALL = [
    *("--set", "net.encoder.channels=[4,8]", "--set", "net.encoder.embed_dim=16", "--set", "net.proj_dim=8"),
    *("--set", "net.hidden_dim=16", "--set", "lr=0.01"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Matches in data, and in runs a contrastive and a painting encoder."""
    folder = tmp_path_factory.mktemp("views")
    write_matches(folder / "data", 8, rows=ROWS, players=3, elsewhere=1)
    for objective, epochs in (("contrastive", 6), ("reconstruction", 1)):
        options = ["--objective", objective, "--epochs", str(epochs), "--output-dir", str(folder / "runs")]
        assert main(["pretrain", "views", str(folder / "data"), *options, *SMALL]) == 0
    return folder


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def metrics(run: RunFolder) -> list[dict[str, float]]:
    return [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]


def test_it_learns_and_keeps_its_best(folder: Path) -> None:
    run = RunFolder(folder / "runs" / "0001")
    learned = metrics(run)
    assert learned[-1]["own"] < learned[0]["own"] - 0.2
    assert learned[-1]["val/loss"] < learned[0]["val/loss"]
    assert run.artifact("views.safetensors").exists()


def test_a_resumed_run_ends_with_the_same_bits(folder: Path, tmp_path: Path) -> None:
    runs = folder / "runs"
    whole = min(runs.glob("0001*"))
    part = tmp_path / whole.name
    shutil.copytree(whole, part)
    newest = max((part / "checkpoints").iterdir())
    shutil.rmtree(newest) if newest.is_dir() else newest.unlink()
    assert main(["pretrain", "views", "--resume", str(part)]) == 0
    one, other = (ViewNet.load(each / "artifacts" / "views.safetensors").state_dict() for each in (whole, part))
    assert all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.long
def test_an_evaluation_has_every_encoder_probe_share_and_question(folder: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "embeddings.json").write_text(json.dumps({"schema": 1, "encoder": "mean colour", "stride": 4}))
    data = MatchData.open(folder / "data")
    for info in data.matches:
        seen = range(0, info.frames, 4)
        views = [data.match(info.id).frames(player, seen).mean((1, 2)) for player in range(info.players)]
        np.save(mine / f"{info.id}.npy", np.stack(views))
    words = ["evaluate", "views", str(folder / "data"), "--labels", "10%", "1.0", "-o", str(tmp_path / "out")]
    assert main([*words, "--encoder", str(folder / "runs" / "0001"), str(mine)]) == 0
    rows = list(csv.DictReader((tmp_path / "out" / "scores.csv").read_text().splitlines()))
    names = {"prior", "untrained", "contrastive", "mean colour"}
    assert {row["encoder"] for row in rows} == names
    assert len(rows) == len(names) * 2 * 2 * 9
    assert all(0 < float(row["value"]) <= 1 for row in rows)
    # One test match gives no interval.
    assert {row["low"] for row in rows} == {""}
    report = (tmp_path / "out" / "report.md").read_text()
    assert "1 test match: too few for intervals" in report
    assert "another map" in report
    assert (tmp_path / "out" / "index.html").stat().st_size > 10_000


def test_the_encoder_is_one_for_nets_and_teams(folder: Path) -> None:
    weights = str(RunFolder(folder / "runs" / "0001").artifact("views.safetensors"))
    encoder = frozen_video_encoder(VideoEncoderSettings(model_type="views", weights=weights), ClipShape(2, 3, 48, 64))
    pictures = torch.randint(0, 256, (3, 2, 3, 48, 64), dtype=torch.uint8)
    features = encoder(pictures)
    assert features.shape == (3, 2, 16)
    small = torch.nn.functional.interpolate(pictures.flatten(0, 1).float(), (24, 32), mode="area")
    torch.testing.assert_close(features.flatten(0, 1), ViewNet.load(weights).embed(small))


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # what transformers says of its own models
def test_others_weights_are_where_it_begins(folder: Path, tmp_path: Path) -> None:
    """A real DINOv2 from a folder, and the encoder of another run: trained on, saved, and read again."""
    import transformers

    sizes = {"hidden_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1, "image_size": 32, "patch_size": 16}
    torch.manual_seed(0)
    transformers.AutoModel.from_config(transformers.Dinov2Config(**sizes, mlp_ratio=2)).save_pretrained(
        tmp_path / "hub"
    )
    first = RunFolder(folder / "runs" / "0001").artifact("views.safetensors")
    begins = {
        "hub": ["--set", "net.encoder.model_type=dinov2", "--set", f"net.encoder.weights={tmp_path / 'hub'}"],
        "run": [*SMALL, "--set", f"net.encoder.weights={first}"],
    }
    for name, options in begins.items():
        words = [*options, "--epochs", "1", "--set", "stride=16", "--output-dir", str(tmp_path / name)]
        assert main(["pretrain", "views", str(folder / "data"), *words]) == 0
        assert ViewNet.load(RunFolder(tmp_path / name / "0001").artifact("views.safetensors")).encoder.embed_dim > 0
    words = [
        "--encoder",
        str(tmp_path / "hub" / "0001"),
        "--labels",
        "100%",
        "--stride",
        "16",
        "-o",
        str(tmp_path / "o"),
    ]
    assert main(["evaluate", "views", str(folder / "data"), *words]) == 0
    assert "dinov2 as it began" in (tmp_path / "o" / "report.md").read_text()


@pytest.mark.long
def test_matches_without_labels_teach_views_and_are_left_out_of_questions(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(folder / "data", tmp_path / "data")
    for number in (0, 1):
        (tmp_path / "data" / "matches" / f"four-rooms-000{number}" / "labels.npz").unlink()
    options = ["--epochs", "1", "--output-dir", str(tmp_path / "runs"), *SMALL]
    assert main(["pretrain", "views", str(tmp_path / "data"), *options]) == 0
    assert "2 matches have none" in capsys.readouterr().out
    words = ["--encoder", str(tmp_path / "runs" / "0001"), "--labels", "100%", "-o", str(tmp_path / "out")]
    assert main(["evaluate", "views", str(tmp_path / "data"), *words]) == 0
    assert "2 matches have none" in capsys.readouterr().out
    facts = json.loads((tmp_path / "out" / "summary.json").read_text())["facts"]
    assert facts["without labels"] == ["four-rooms-0000", "four-rooms-0001"]
    assert facts["matches"]["train"] == 4
    (tmp_path / "data" / "matches" / "four-rooms-0005" / "labels.npz").unlink()
    assert main(["evaluate", "views", str(tmp_path / "data"), *words]) == 1
    assert "0 of the 1 or more matches of split 'test'" in capsys.readouterr().err


@pytest.mark.long
def test_a_folder_with_two_maps_of_labels_asks_which(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Views are learned from on both; places are those of one."""
    write_matches(tmp_path / "data", 6, rows=ROWS, players=3, elsewhere=6)
    path = tmp_path / "data" / "manifest.json"
    manifest = json.loads(path.read_text())
    for entry in manifest["matches"]:
        entry["split"] = {3: "val", 5: "test"}.get(int(entry["id"][-4:]), "train")
    path.write_text(json.dumps(manifest))
    options = ["--epochs", "1", "--output-dir", str(tmp_path / "runs"), *SMALL]
    assert main(["pretrain", "views", str(tmp_path / "data"), *options]) == 0
    assert "train matches 8" in capsys.readouterr().out
    words = ["--encoder", str(tmp_path / "runs" / "0001"), "--labels", "100%", "-o", str(tmp_path / "out")]
    assert main(["evaluate", "views", str(tmp_path / "data"), *words]) == 1
    assert "training matches on 2 maps (cellar, four-rooms)" in capsys.readouterr().err
    assert main(["evaluate", "views", str(tmp_path / "data"), *words, "--map", "cellar"]) == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--encoder", "nothing-such"], "nothing-such"),
        (["--encoder", "runs/0099"], "no run at runs/0099"),
        (["--encoder", "cnn", "--labels", "0%"], "--labels 0%: give shares"),
        (["--encoder", "cnn", "--labels", "150%"], "--labels 150%: give shares"),
        (["--encoder", "cnn", "--labels", "x"], "--labels x: give shares"),
        (["--encoder", "cnn", "--split", "train"], "--split train: give test or val"),
        (["--encoder", "cnn", "--map", "four-room"], "four-rooms"),
        (["--encoder", "cnn", "cnn"], "given twice"),
    ],
)
def test_words_that_make_no_sense_are_told(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], told: str
) -> None:
    words = [*words, "-o", str(tmp_path)]
    assert main(["evaluate", "views", str(folder / "data"), *words]) == 1
    assert told in capsys.readouterr().err
