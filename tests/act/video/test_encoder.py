"""Every encoder of the factory, with real weights or real loading code on tiny random ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

from reelrl.act.video.encoder import (
    ENCODERS,
    ClipShape,
    VideoEncoderSettings,
    encode_frozen,
    frozen_video_encoder,
    make_video_encoder,
    read_encoder_settings,
)
from reelrl.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

CLIP = ClipShape(frames=2, channels=3, height=36, width=48)
SMALL = {"embed_dim": 16, "heads": 2, "depth": 1, "channels": [4, 8]}
VIT: dict[str, Any] = {
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32, "image_size": 32,
}  # fmt: skip


def video(count: int = 3, clip: ClipShape = CLIP) -> torch.Tensor:
    return torch.randint(256, (count, *clip), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize(
    ("name", "rows", "width"),
    [
        ("cnn", 1, 16),
        ("video-transformer", 2, 16),
        ("residual-cnn", 2, 16),
        ("streaming-ae", 2, 4495),
        ("effnet-lite0", 2, 1280),
    ],
)
def test_encoders_without_download_answer_the_shape_they_promise(name: str, rows: int, width: int) -> None:
    encoder = make_video_encoder(read_encoder_settings({"model_type": name, "image_size": 64, **SMALL}), CLIP)
    features = encoder(video())
    assert (encoder.frames_out, encoder.embed_dim) == (rows, width)
    assert features.shape == (3, rows, width)
    assert features.isfinite().all()


def tiny_weights(name: str, folder: Path) -> str:
    """A tiny randomly initialised model of the family, saved as a hub's folder is."""
    import transformers as t

    image = {**VIT, "patch_size": 16}
    text = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8, "vocab_size": 9}
    video = {**image, "num_frames": 2}
    configs: dict[str, Any] = {
        "siglip": lambda: t.SiglipConfig(text_config=text, vision_config=image),
        "clip": lambda: t.CLIPConfig(text_config=text, vision_config=image),
        "dinov2": lambda: t.Dinov2Config(**{**VIT, "patch_size": 16, "mlp_ratio": 2}),
        "vivit": lambda: t.VivitConfig(**video, tubelet_size=[2, 16, 16]),
        "timesformer": lambda: t.TimesformerConfig(**video),
        "videomae": lambda: t.VideoMAEConfig(**video, tubelet_size=2),
        "vjepa2": lambda: t.VJEPA2Config(
            patch_size=16, crop_size=32, frames_per_clip=2, hidden_size=16, num_attention_heads=2, num_hidden_layers=1,
            pred_hidden_size=16, pred_num_attention_heads=2, pred_num_hidden_layers=1, mlp_ratio=2,
        ),
    }  # fmt: skip
    t.AutoModel.from_config(configs["siglip" if name == "siglip2" else name]()).save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("name", ["siglip", "siglip2", "clip", "dinov2", "vivit", "timesformer", "videomae", "vjepa2"])
@pytest.mark.filterwarnings("ignore")  # what transformers says of its own models
def test_hub_encoders_load_from_a_folder(name: str, tmp_path: Path) -> None:
    settings = VideoEncoderSettings(model_type=name, weights=tiny_weights(name, tmp_path), freeze_backbone=True)
    encoder = frozen_video_encoder(settings, CLIP)
    features = encode_frozen(encoder, video())
    assert features.shape == (3, encoder.frames_out, 16)
    assert encoder.frames_out == (2 if encoder.per_frame else 1)
    assert features.isfinite().all()


def test_a_frame_reader_reads_each_frame_place_by_place(tmp_path: Path) -> None:
    from reelrl.act.location.frame_reader.net import FrameReaderNet, FrameReaderSettings
    from reelrl.act.location.readings import readings_of

    small = FrameReaderSettings(places=2, picture=CLIP[2:], channels=(4, 4), blocks=(0, 0), embed_dim=8, column_dim=8)
    FrameReaderNet(small).save(tmp_path / "reader.safetensors")
    weights = str(tmp_path / "reader.safetensors")
    encoder = frozen_video_encoder(
        VideoEncoderSettings(model_type="frame-reader", weights=weights, freeze_backbone=True), CLIP
    )
    assert encode_frozen(encoder, video()).shape == (3, 2, 2 * readings_of(2))


def test_every_name_of_the_factory_is_tested_here() -> None:
    hub = {"siglip", "siglip2", "clip", "dinov2", "vivit", "timesformer", "videomae", "vjepa2"}
    here = {"cnn", "video-transformer", "residual-cnn", "frame-reader", "streaming-ae", "effnet-lite0"}
    assert set(ENCODERS) == hub | here | {"views"}  # the last in tests/act/views


def test_effnet_tells_pictures_apart_better_than_chance_weights_could() -> None:
    """It was trained: the same picture, a little shifted, stays nearer than another picture."""
    from reelrl.act.video.pretrained import EffnetLite0

    encoder = EffnetLite0(VideoEncoderSettings(model_type="effnet-lite0"), ClipShape(1, 3, 64, 64)).eval()
    ramp = torch.arange(64).view(1, 64).expand(64, 64) * 4
    checks = ((torch.arange(64).view(1, 64) // 8 + torch.arange(64).view(64, 1) // 8) % 2) * 255
    pictures = torch.stack([ramp, ramp.roll(2, 1), checks]).byte()[:, None, None].expand(3, 1, 3, 64, 64)
    with torch.no_grad():
        one, shifted, other = torch.nn.functional.normalize(encoder(pictures)[:, 0], dim=1)
    assert one @ shifted > one @ other


def test_frozen_weights_are_the_same_for_all_who_ask_and_leave_chance_alone() -> None:
    settings = VideoEncoderSettings(model_type="cnn", freeze_backbone=True, seed=7)
    torch.manual_seed(0)
    expected = torch.rand(1)
    torch.manual_seed(0)
    one = frozen_video_encoder(settings, CLIP)
    assert torch.equal(torch.rand(1), expected)
    frozen_video_encoder.cache_clear()
    other = frozen_video_encoder(settings, CLIP)
    assert torch.equal(one(video()), other(video()))
    assert not any(p.requires_grad for p in one.parameters())


def test_a_trained_autoencoder_lends_its_encoder(tmp_path: Path) -> None:
    from reelrl.see import AutoEncoderSettings, StreamingAutoEncoder
    from reelrl.see.weights import save_weights

    model = StreamingAutoEncoder(AutoEncoderSettings(latent_channels=4, seed=3))
    save_weights(model, tmp_path / "model.safetensors")
    settings = VideoEncoderSettings(model_type="streaming-ae", weights=str(tmp_path / "model.safetensors"))
    encoder = make_video_encoder(settings, ClipShape(1, 3, 224, 224))
    frames = video(1, ClipShape(1, 3, 224, 224))
    with torch.no_grad():
        expected = torch.cat([part.flatten(1) for part in model.encode(frames[0].float() / 255)], 1)
        assert torch.allclose(encoder(frames)[0], expected, atol=1e-6)


@pytest.mark.parametrize(
    ("settings", "clip", "error", "message"),
    [
        ({"model_type": "videomea"}, CLIP, ConfigError, "did you mean 'videomae'"),
        ({"model_type": "effnet-lite0"}, ClipShape(1, 1, 36, 48), ConfigError, "sees RGB.*1 channels"),
        ({"model_type": "cnn", "embed_dim": 0}, CLIP, ConfigError, "embed_dim is 0"),
        ({"model_type": "video-transformer", "patch": 99}, CLIP, ConfigError, "patch = 99 is larger"),
        ({"model_type": "streaming-ae", "weights": "no.safetensors"}, CLIP, CheckpointError, "no.safetensors"),
        ({"model_type": "dinov2", "weights": "/no/such/folder"}, CLIP, ConfigError, "no weights at '/no/such/folder'"),
    ],
)
def test_what_cannot_be_right_is_refused(
    settings: dict[str, Any], clip: ClipShape, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make_video_encoder(read_encoder_settings(settings), clip)
