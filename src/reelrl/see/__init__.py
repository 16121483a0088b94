"""An autoencoder that learns while it watches: one frame in, one update, next frame.

    model = StreamingAutoEncoder(AutoEncoderSettings(), device="cuda")
    for frame in source:
        result = model.learn(frame)          # scored before it is learned from
    embeddings = model.encode(frames)

Names are imported when they are first used, so that settings can be read without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reelrl.names import lazy

if TYPE_CHECKING:
    from reelrl.see.classic import create_streaming_ae as create_streaming_ae
    from reelrl.see.frames.source import postprocess_output as postprocess_output
    from reelrl.see.frames.source import preprocess_frame as preprocess_frame
    from reelrl.see.learner import StreamingAutoEncoder as StreamingAutoEncoder
    from reelrl.see.model.layers import LayerNormalization as LayerNormalization
    from reelrl.see.model.layers import ResidualBlock as ResidualBlock
    from reelrl.see.model.layers import TransformerBlock as TransformerBlock
    from reelrl.see.model.loss import PixelChangeDetector as PixelChangeDetector
    from reelrl.see.model.loss import compute_frame_difference as compute_frame_difference
    from reelrl.see.model.network import Decoder as Decoder
    from reelrl.see.model.network import Encoder as Encoder
    from reelrl.see.monitor.panels import FeatureVisualizer as FeatureVisualizer
    from reelrl.see.monitor.performance import PerformanceMonitor as PerformanceMonitor
    from reelrl.see.monitor.performance import TensorBoardLogger as TensorBoardLogger
    from reelrl.see.optim.intentional import IntentionalSGD as IntentionalSGD
    from reelrl.see.optim.obgd import AdaptiveObGD as AdaptiveObGD
    from reelrl.see.optim.obgd import ObGD as ObGD
    from reelrl.see.result import LearnResult as LearnResult
    from reelrl.see.settings import AutoEncoderSettings as AutoEncoderSettings

_HOMES = {
    "AdaptiveObGD": "optim.obgd",
    "AutoEncoderSettings": "settings",
    "Decoder": "model.network",
    "Encoder": "model.network",
    "FeatureVisualizer": "monitor.panels",
    "IntentionalSGD": "optim.intentional",
    "LayerNormalization": "model.layers",
    "LearnResult": "result",
    "ObGD": "optim.obgd",
    "PerformanceMonitor": "monitor.performance",
    "PixelChangeDetector": "model.loss",
    "ResidualBlock": "model.layers",
    "StreamingAutoEncoder": "learner",
    "TensorBoardLogger": "monitor.performance",
    "TransformerBlock": "model.layers",
    "compute_frame_difference": "model.loss",
    "create_streaming_ae": "classic",
    "postprocess_output": "frames.source",
    "preprocess_frame": "frames.source",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = lazy(__name__, _HOMES)
