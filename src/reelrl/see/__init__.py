"""An autoencoder that learns while it watches: one frame in, one update, next frame.

    model = StreamingAutoEncoder(AutoEncoderSettings(), device="cuda")
    for frame in source:
        result = model.learn(frame)          # scored before it is learned from
    embeddings = model.encode(frames)

Names are imported when they are first used, so that settings can be read without torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reelrl.see.change import PixelChangeDetector as PixelChangeDetector
    from reelrl.see.change import compute_frame_difference as compute_frame_difference
    from reelrl.see.classic import create_streaming_ae as create_streaming_ae
    from reelrl.see.decoder import Decoder as Decoder
    from reelrl.see.encoder import Encoder as Encoder
    from reelrl.see.frames import postprocess_output as postprocess_output
    from reelrl.see.frames import preprocess_frame as preprocess_frame
    from reelrl.see.layers import LayerNormalization as LayerNormalization
    from reelrl.see.layers import ResidualBlock as ResidualBlock
    from reelrl.see.layers import TransformerBlock as TransformerBlock
    from reelrl.see.monitor import PerformanceMonitor as PerformanceMonitor
    from reelrl.see.monitor import TensorBoardLogger as TensorBoardLogger
    from reelrl.see.optim.intentional import IntentionalSGD as IntentionalSGD
    from reelrl.see.optim.obgd import AdaptiveObGD as AdaptiveObGD
    from reelrl.see.optim.obgd import ObGD as ObGD
    from reelrl.see.panels import FeatureVisualizer as FeatureVisualizer
    from reelrl.see.result import LearnResult as LearnResult
    from reelrl.see.settings import AutoEncoderSettings as AutoEncoderSettings
    from reelrl.see.streaming import StreamingAutoEncoder as StreamingAutoEncoder

_HOMES = {
    "AdaptiveObGD": "optim.obgd",
    "AutoEncoderSettings": "settings",
    "Decoder": "decoder",
    "Encoder": "encoder",
    "FeatureVisualizer": "panels",
    "IntentionalSGD": "optim.intentional",
    "LayerNormalization": "layers",
    "LearnResult": "result",
    "ObGD": "optim.obgd",
    "PerformanceMonitor": "monitor",
    "PixelChangeDetector": "change",
    "ResidualBlock": "layers",
    "StreamingAutoEncoder": "streaming",
    "TensorBoardLogger": "monitor",
    "TransformerBlock": "layers",
    "compute_frame_difference": "change",
    "create_streaming_ae": "classic",
    "postprocess_output": "frames",
    "preprocess_frame": "frames",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
