"""A frozen encoder at the door of training: every frame is encoded once, when it is seen.

    match ─► observation: video ─► EncodeVideo ─► video_embedding ─► batch ─► actor and critic, in all epochs
                                        └ the video itself goes no further

Encoders that look at each frame alone encode the newest one only; the rows of the older ones are those of the step
before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from reelrl.act.video.encoder import ClipShape, VideoEncoderSettings, encode_frozen, frozen_video_encoder

if TYPE_CHECKING:
    from tensordict import TensorDictBase

from torchrl.data import Composite, Unbounded
from torchrl.envs import Transform

EMBEDDING = "video_embedding"  # leaf name under the agent group; [agents, rows, width]


class EncodeVideo(Transform):  # type: ignore[misc]
    """Puts the embedding of each agent's video into what an environment returns, in the video's place."""

    def __init__(
        self, settings: VideoEncoderSettings, video_key: tuple[str, ...], clip: ClipShape, device: Any
    ) -> None:
        super().__init__()
        self.video_key, self.embedding_key = video_key, (video_key[0], EMBEDDING)
        # In a tuple: not a part of this module, which is copied and saved by whoever holds the environment.
        self._encoder = (frozen_video_encoder(settings, clip, device),)

    def _reset(self, tensordict: TensorDictBase, tensordict_reset: TensorDictBase) -> TensorDictBase:
        del tensordict
        video = tensordict_reset.get(self.video_key)
        encoder = self._encoder[0]
        if encoder.per_frame:
            rows = encode_frozen(encoder, video[..., -1:, :, :, :])  # an episode begins with its first frame repeated
            rows = rows.expand(*rows.shape[:-2], encoder.frames_out, -1).clone()
        else:
            rows = encode_frozen(encoder, video)
        return self._replace(tensordict_reset, rows)

    def _step(self, tensordict: TensorDictBase, next_tensordict: TensorDictBase) -> TensorDictBase:
        video = next_tensordict.get(self.video_key)
        encoder = self._encoder[0]
        if encoder.per_frame:
            newest = encode_frozen(encoder, video[..., -1:, :, :, :])
            rows = torch.cat([tensordict.get(self.embedding_key)[..., 1:, :], newest], dim=-2)
        else:
            rows = encode_frozen(encoder, video)
        return self._replace(next_tensordict, rows)

    def transform_observation_spec(self, observation_spec: Composite) -> Composite:
        encoder = self._encoder[0]
        agents = observation_spec[self.video_key].shape[:-4]
        observation_spec[self.embedding_key] = Unbounded(
            shape=(*agents, encoder.frames_out, encoder.embed_dim), device=observation_spec.device
        )
        del observation_spec[self.video_key]
        return observation_spec

    def _replace(self, tensordict: TensorDictBase, rows: torch.Tensor) -> TensorDictBase:
        tensordict.set(self.embedding_key, rows)
        return tensordict.exclude(self.video_key)
