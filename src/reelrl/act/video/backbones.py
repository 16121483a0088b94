"""Video encoders that need no download."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.act.video.encoder import ClipShape, VideoEncoder, VideoEncoderSettings
from reelrl.act.video.residual import halving, residual_trunk
from reelrl.errors import CheckpointError, ConfigError
from reelrl.settings import config
from reelrl.storage.regular_files import check_regular

if TYPE_CHECKING:
    from reelrl.see.settings import AutoEncoderSettings

_LAYERS = ((8, 4), (4, 2), (3, 1))  # kernel and stride; the last is repeated


class Cnn(VideoEncoder):
    """Convolutions over the frames stacked as channels, then one layer: the encoder of most agents that learn games."""

    per_frame = False

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        super().__init__(settings, clip)
        self.embed_dim = settings.embed_dim
        layers: list[nn.Module] = []
        height, width, before = clip.height, clip.width, clip.frames * clip.channels
        for index, channels in enumerate(settings.channels):
            kernel, stride = _LAYERS[min(index, len(_LAYERS) - 1)]
            height, width = ((side - kernel) // stride + 1 for side in (height, width))
            if min(height, width) < 1:
                raise ConfigError(
                    f"pictures of {clip.height} x {clip.width} are too small for the {index + 1} layers of the cnn; "
                    "use larger ones or fewer channels"
                )
            layers += [nn.Conv2d(before, channels, kernel, stride), nn.ReLU()]
            before = channels
        layers += [nn.Flatten(), nn.Linear(before * height * width, self.embed_dim), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        for layer in self.layers:
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.orthogonal_(layer.weight, math.sqrt(2))
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)
        _load_trained(self)

    def forward(self, video: Tensor) -> Tensor:
        features: Tensor = self.layers(video.flatten(1, 2).float() / 255 - 0.5)
        return features.unsqueeze(1)


class VideoTransformer(VideoEncoder):
    """Attention over the patches of all frames; a row per frame, the mean of its patches."""

    per_frame = True

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        super().__init__(settings, clip)
        self.embed_dim = settings.embed_dim
        rows, columns = clip.height // settings.patch, clip.width // settings.patch
        if min(rows, columns) < 1:
            raise ConfigError(
                f"patch = {settings.patch} is larger than pictures of {clip.height} x {clip.width}; make it smaller"
            )
        self.patches = nn.Conv2d(clip.channels, self.embed_dim, settings.patch, settings.patch)
        self.place = nn.Parameter(torch.randn(1, 1, rows * columns, self.embed_dim) * 0.02)
        self.time = nn.Parameter(torch.randn(1, clip.frames, 1, self.embed_dim) * 0.02)
        # Written as layers of their own: the fast path of nn.TransformerEncoder knows no functional parameters.
        self.blocks = nn.ModuleList(_Block(self.embed_dim, settings.heads) for _ in range(settings.depth))
        self.norm = nn.LayerNorm(self.embed_dim)
        _load_trained(self)

    def forward(self, video: Tensor) -> Tensor:
        count, frames = video.shape[:2]
        patches = self.patches(video.flatten(0, 1).float() / 255 - 0.5)
        tokens = patches.flatten(2).transpose(1, 2).unflatten(0, (count, frames)) + self.place + self.time
        tokens = tokens.flatten(1, 2)
        for block in self.blocks:
            tokens = block(tokens)
        features: Tensor = self.norm(tokens).unflatten(1, (frames, -1)).mean(2)
        return features


class _Block(nn.Module):
    """Attention, then a layer per token, both beside what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_layer = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.layer = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, tokens: Tensor) -> Tensor:
        parts = self.query_key_value(self.before_attention(tokens)).unflatten(-1, (3, self.heads, -1))
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value)
        tokens = tokens + self.out(seen.transpose(1, 2).flatten(2))
        answer: Tensor = tokens + self.layer(self.before_layer(tokens))
        return answer


class ResidualCnn(VideoEncoder):
    """Residual convolutions over each frame, then one layer that knows what was where; a row per frame."""

    per_frame = True

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        super().__init__(settings, clip)
        halvings = len(settings.channels) + 1
        if clip.channels != 3 or min(clip.height, clip.width) < 1 << halvings:
            raise ConfigError(
                f"residual-cnn sees RGB and halves it {halvings} times, and this video has {clip.channels} channels of "
                f"{clip.height} x {clip.width}; use larger pictures or fewer channels"
            )
        self.embed_dim, last = settings.embed_dim, settings.channels[-1]
        self.trunk = residual_trunk(settings.channels, [0] + [1] * (len(settings.channels) - 1))
        left = math.ceil(clip.height / (1 << halvings)) * math.ceil(clip.width / (1 << halvings))
        self.whole = nn.Sequential(halving(last, last), nn.Flatten(), nn.Linear(last * left, self.embed_dim))
        _load_trained(self)

    def forward(self, video: Tensor) -> Tensor:
        pictures = video.flatten(0, 1).float() / 127.5 - 1
        return torch.unflatten(self.whole(self.trunk(pictures)), 0, tuple(video.shape[:2]))


class AutoEncoderBackbone(VideoEncoder):
    """The three embeddings of our streaming autoencoder, side by side, of each frame."""

    per_frame = True

    def __init__(self, settings: VideoEncoderSettings, clip: ClipShape) -> None:
        from reelrl.see.learner import StreamingAutoEncoder
        from reelrl.see.settings import FRAME_SIZE, AutoEncoderSettings
        from reelrl.see.weights import load_weights

        super().__init__(settings, clip)
        if clip.channels != 3:
            raise ConfigError(f"streaming-ae sees RGB, and this video has {clip.channels} channels")
        model_settings = (
            _saved_settings(Path(settings.weights)) if settings.weights else AutoEncoderSettings(seed=settings.seed)
        )
        model = StreamingAutoEncoder(model_settings)
        if settings.weights:
            load_weights(model, settings.weights)
        self.background, self.encoder = model.background, model.encoder
        self.size = FRAME_SIZE
        with torch.no_grad():
            self.embed_dim = self._embed(torch.zeros(1, 3, self.size, self.size)).shape[1]

    def forward(self, video: Tensor) -> Tensor:
        pictures = resized(video.flatten(0, 1).float() / 255, self.size)
        return torch.unflatten(self._embed(pictures), 0, tuple(video.shape[:2]))

    def _embed(self, pictures: Tensor) -> Tensor:
        return torch.cat([part.flatten(1) for part in self.encoder(self.background.normalise(pictures))], dim=1)


def resized(pictures: Tensor, size: int) -> Tensor:
    """Pictures [N, C, H, W] as [N, C, size, size]."""
    if pictures.shape[-2:] == (size, size):
        return pictures
    return nn.functional.interpolate(pictures, (size, size), mode="bilinear", align_corners=False)


def _load_trained(encoder: VideoEncoder) -> None:
    """Take the weights that another training gave such an encoder, if the file of its net is named."""
    from safetensors import SafetensorError, safe_open

    path, prefix = encoder.settings.weights, "encoder."
    if path is None:
        return
    try:
        check_regular(path, follow_links=True)
        with safe_open(path, "pt") as file:
            trained = {name: file.get_tensor(name) for name in file.keys() if name.startswith(prefix)}  # noqa: SIM118
        encoder.load_state_dict({name.removeprefix(prefix): value for name, value in trained.items()})
    except (OSError, SafetensorError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise CheckpointError(
            f"{encoder.settings.model_type}: weights {path} do not fit clips of {tuple(encoder.clip)} ({reason}); give "
            "the artifacts/net.safetensors of `reel train location`, or the artifacts/views.safetensors of `reel "
            "pretrain views`, with this encoder, its settings and its clips"
        ) from error


def _saved_settings(path: Path) -> AutoEncoderSettings:
    from safetensors import SafetensorError, safe_open

    from reelrl.see.settings import AutoEncoderSettings

    try:
        check_regular(path, follow_links=True)
        with safe_open(path, "pt") as file:
            text = (file.metadata() or {}).get("settings", "")
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"weights {path} cannot be read ({error}); give the artifacts/model.safetensors of an autoencoder's run"
        ) from error
    return config.loads(AutoEncoderSettings, text, str(path))
