"""What a frame reader says by place, where on the screen, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from reelrl.act.location.frame_reader.labelled_frames import CELLS, cells_of, in_view, on_columns
from reelrl.act.location.frame_reader.net import OF_A_PLACE, FrameReaderNet, FrameReaderSettings, somebody
from reelrl.act.location.readings import readings_of, split, surest
from reelrl.act.video.encoder import ClipShape, VideoEncoderSettings, make_video_encoder
from reelrl.errors import CheckpointError, ConfigError
from reelrl.settings import config
from tests.act.location.written_matches import PLAN

if TYPE_CHECKING:
    from pathlib import Path

SMALL: dict[str, Any] = {
    "places": 4, "players": 2, "enemies": 3, "picture": (24, 32), "channels": (4, 4), "blocks": (1, 0),
    "embed_dim": 8, "column_dim": 8,
}  # fmt: skip


def net(**changes: Any) -> FrameReaderNet:
    torch.manual_seed(0)
    return FrameReaderNet(FrameReaderSettings(**{**SMALL, **changes})).eval()


def pictures(count: int = 3) -> torch.Tensor:
    return torch.randint(256, (count, 3, 24, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))


def test_every_column_speaks_of_every_cell() -> None:
    said = net()(pictures())
    cells = 4 * OF_A_PLACE
    assert {name: tuple(each.shape[1:]) for name, each in said.items()} == {
        "own": (cells,), "heading": (16,), "view": (4,), "columns": (8, 5, cells),
    }  # fmt: skip


def test_readings_are_shares_place_by_place() -> None:
    model = net()
    readings = model.readings(pictures())
    assert readings.shape == (3, 4, readings_of(5))
    (own, _, east, north), bodies = (part.unbind(-1) for part in split(readings))
    torch.testing.assert_close(own.sum(1), torch.ones(3))
    seen = somebody(model(pictures())["columns"]).sigmoid()[:, 4].unflatten(1, (4, OF_A_PLACE))  # type: ignore[no-untyped-call]
    assert (bodies[4] >= seen.amax(-1)).all()
    assert (bodies[4] <= seen.sum(-1)).all()
    assert (east.pow(2) + north.pow(2) <= own.pow(2) + 1e-6).all()


def test_of_several_looks_the_surest_counts_and_the_player_is_where_it_is_now() -> None:
    readings = torch.rand(2, 3, 4, readings_of(5), generator=torch.Generator().manual_seed(0))
    found = surest(readings)
    assert torch.equal(found[:, 0], readings[:, 0])
    assert torch.equal(found[:, 2, :, :4], readings[:, 2, :, :4])
    assert torch.equal(found[:, 2, :, 4:], readings[..., 4:].amax(1))


def test_odds_of_columns_add_up() -> None:
    columns = torch.full((1, 5, 2, 3), -10.0)
    columns[0, 2, 1, 0] = 4.0
    found = somebody(columns)[0]
    assert found[1, 0] == pytest.approx(4.0, abs=1e-3)
    assert found[0, 0] == pytest.approx(-10 + np.log(5), abs=1e-3)


def test_a_frame_reader_is_an_encoder_of_each_frame(tmp_path: Path) -> None:
    model = net()
    model.save(tmp_path / "reader.safetensors")
    settings = VideoEncoderSettings(
        model_type="frame-reader", freeze_backbone=True, weights=str(tmp_path / "reader.safetensors")
    )
    encoder = make_video_encoder(settings, ClipShape(2, 3, 24, 32)).eval()
    video = pictures(6).unflatten(0, (3, 2))  # type: ignore[no-untyped-call]
    with torch.no_grad():
        torch.testing.assert_close(encoder(video)[1, 0], model.readings(video[1, :1])[0].flatten())
    assert encoder.embed_dim == 4 * readings_of(5)
    with pytest.raises(ConfigError, match="takes RGB frames of 24 x 32"):
        make_video_encoder(settings, ClipShape(1, 3, 48, 32))
    with pytest.raises(ConfigError, match="a frame reader must have been trained"):
        make_video_encoder(VideoEncoderSettings(model_type="frame-reader"), ClipShape(1, 3, 24, 32))


def test_a_file_that_holds_no_frame_reader_is_told(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"reader\.safetensors"):
        FrameReaderNet.load(tmp_path / "reader.safetensors")
    (tmp_path / "reader.safetensors").write_bytes(b"\x80\x04pickle")
    with pytest.raises(CheckpointError, match="holds no frame reader"):
        FrameReaderNet.load(tmp_path / "reader.safetensors")


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"blocks": (1,)}, "blocks are"),
        ({"channels": ()}, "channels are"),
        ({"embed_dim": 0}, "embed_dim is 0"),
        ({"enemies": 0}, "enemies is 0"),
        ({"picture": (4, 32)}, "too small for 2 convolutions"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_settings_that_cannot_be_are_told(wrong: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        net(**wrong)


def test_somebody_is_on_the_columns_that_the_body_covers() -> None:
    cell, body = torch.tensor([[5, -1, 2]]), torch.tensor([[0, 1, 4]])  # 4: one of many, who have no names
    span = torch.tensor([[[7.0, 17.0], [0.0, 32.0], [31.0, 40.0]]])
    marks = on_columns(cell, body, span, bodies=3, cells=6, columns=4, width=32)
    assert marks.shape == (1, 4, 3, 6)
    assert marks[0, :, 0, 5].tolist() == [True, True, True, False]
    assert marks[0, :, 2, 2].tolist() == [False, False, False, True]
    assert marks.sum() == 4


def test_a_cell_lies_in_its_place() -> None:
    rng = np.random.default_rng(0)
    position = rng.uniform(-20, 220, (500, 3))
    cells = cells_of(PLAN, position, np.ones(500, bool))
    places = PLAN.place_of(position[:, 0], position[:, 1])
    assert (np.where(cells >= 0, cells // OF_A_PLACE, -1) == places).all()
    corners = np.array([[1.0, 1.0, 0], [98.0, 1.0, 0], [1.0, 98.0, 0]])
    assert cells_of(PLAN, corners, np.ones(3, bool)).tolist() == [0, CELLS - 1, CELLS * (CELLS - 1)]


def test_what_is_in_view_lies_before_the_player_and_not_behind_walls() -> None:
    middle_of_the_west = np.array([[50.0, 50.0]])
    east = in_view(PLAN, middle_of_the_west, np.array([0.0]))[0]
    assert east[1] > 0.5 > east[0] > 0  # the whole next room, and a part of one's own
    assert east[1] > east[3] > 0
    west = in_view(PLAN, middle_of_the_west, np.array([180.0]))[0]
    assert west[[1, 3]].max() == 0
    wall = np.concatenate([PLAN.walls, [[100, 0, 100, 200]]])
    walled = type(PLAN)(PLAN.name, wall, PLAN.places, PLAN.boxes)
    assert in_view(walled, middle_of_the_west, np.array([0.0]))[0][[1, 3]].max() < 0.02


def test_sizes_that_no_net_can_have_are_refused(tmp_path: Path) -> None:
    """Found by `make faults`: torch refuses them with an error of its own."""
    from safetensors.numpy import save_file

    model = net()
    text = config.dumps(model.settings).replace("embed_dim: 8", f"embed_dim: {2**63}")
    save_file({}, tmp_path / "reader.safetensors", {"frame-reader": text})
    with pytest.raises(CheckpointError, match=r"reader.safetensors holds no frame reader"):
        FrameReaderNet.load(tmp_path / "reader.safetensors")
