"""`CrossEgoVideoLocationNet`: from what some players see to the places that hold teammates and enemies.

    video [B, A, T, C, H, W] ─► encoder ─┐
    embeddings [B, A, D] ────────────────┤
    readings [B, A, T, D] ─► memory ─────┴─► present views [N, D] ─► projector (─► L2 norm) [N, P] ─► contrastive loss
                                                                        │
      logits {head: [B, places]} ◄─ layers ◄─ [fused; side] ◄─ fuser ◄──┴─ a subset of the agents [B, A, P]

Readings by place are remembered, fused and answered body by body and place by place, as place_memory.py tells.
The projector sees each view alone. Teammates are needed for the loss only: one agent at inference works.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from reelrl.act.location.model.contrastive_loss import ContrastiveOutput, CrossEgoContrastive, Projector
from reelrl.act.location.model.fuser import AgentFuser
from reelrl.act.location.model.place_memory import PlaceMemory, PlaceReader
from reelrl.act.location.model.settings import LocationNetSettings
from reelrl.act.location.saved_net import load_net, save_net
from reelrl.act.video.encoder import ClipShape, encode_frozen, frozen_video_encoder, make_video_encoder
from reelrl.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

    from reelrl.act.video.encoder import VideoEncoder

HEADS = ("mates_now", "enemies_now", "mates_ahead", "enemies_ahead")
ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU, "silu": nn.SiLU, "tanh": nn.Tanh}

_WANTED = {
    "video": "it has an encoder and reads video: give video=[B, A, T, C, H, W], or make a net for precomputed "
    "embeddings by setting embed_dim in place of video_encoder and clip",
    "embeddings": "it has no encoder and reads precomputed embeddings: give embeddings=[B, A, D], or make a net for "
    "video by setting video_encoder and clip in place of embed_dim",
    "readings": "it has a memory and reads histories of readings by place: give embeddings=[B, A, T, D], or "
    "remembered=[B, A, bodies * places * memory_dim] as `remember` gave it",
}


@dataclass(frozen=True, eq=False)
class LocationOutput:
    """`logits` of each head [B, places]; `subset` [B, A]: whose views they come from."""

    logits: dict[str, Tensor]
    subset: Tensor
    contrastive: ContrastiveOutput | None = field(repr=False)
    """Of the views of all agents present; None where that is not enabled."""
    bodies: Tensor | None = None
    """Of a net with a memory, as `Read` has them: where each body is."""


class CrossEgoVideoLocationNet(nn.Module):
    """Multi-label location of teammates and enemies, now and some seconds ahead.

    A frozen encoder is not a part of the module: it has nothing to learn or save. With precomputed embeddings none
    is built.
    """

    def __init__(self, settings: LocationNetSettings) -> None:
        super().__init__()
        self.settings = settings
        encoder = _encoder(settings)
        learns = encoder is not None and any(weight.requires_grad for weight in encoder.parameters())
        self.encoder = encoder if learns else None
        self._frozen = () if encoder is None or learns else (encoder,)
        if settings.players is not None and settings.enemies is not None:
            self.memory: PlaceMemory | None = PlaceMemory(
                settings.num_places, settings.players, settings.enemies, settings.memory_dim
            )
            self.projector = _projector(settings, self._remembers)
            self.reader = PlaceReader(settings, HEADS)
            return
        self.memory = None
        self.projector = _projector(settings, encoder.embed_dim if encoder else settings.embed_dim or 0)
        self.fuser = AgentFuser(settings.proj_dim, settings.num_agents, settings.fusion, settings.fused_agent_dim)
        self.side = nn.Embedding(2, settings.team_embed_dim) if settings.team_embed_dim else None
        self.layers, known = _layers(settings)
        self.heads = nn.ModuleDict({head: nn.Linear(known, settings.num_places) for head in HEADS})

    def forward(
        self,
        *,
        video: Tensor | None = None,
        embeddings: Tensor | None = None,
        remembered: Tensor | None = None,
        present: Tensor | None = None,
        team: Tensor | None = None,
        moments: Tensor | None = None,
        subset: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> LocationOutput:
        """Give uint8 `video` [B, A, T, C, H, W] or `embeddings` [B, A, D], whichever the net was made for.

        A net with a memory reads `embeddings` [B, A, T, D] that end at the moment asked about, or what it `remembered`.

        present   bool [B, A]: whose views there are, the dead having none; all, if not given
        team      [B]: the side that the row's agents play for, 0 or 1
        moments   [B]: rows with the same number show the same moment; each row another one, if not given
        subset    bool [B, A]: whose views may be used for the answer; if not given, in training `num_pov_agents`
                  of those present, drawn with `generator`, else all
        """
        views = self._views(video, embeddings, remembered)
        present = _mask(present, views, "present")
        seats = torch.arange(present.shape[1], device=present.device).expand_as(present)
        seen = self._encode(views[present], seats[present])
        z, contrastive = self._project(seen, present, moments)
        subset = self._subset(present, generator) if subset is None else _mask(subset, views, "subset") & present
        side = _sides(team, present)
        if self.memory is not None:
            remembered = torch.unflatten(seen, 1, (self.memory.bodies, self.settings.num_places, -1))
            read = self.reader(remembered, z, present, subset, side)
            return LocationOutput(read.logits, subset, contrastive, read.bodies)
        everyone = z.new_zeros(*present.shape, z.shape[1])
        everyone[present] = z
        known = self.fuser(everyone, subset)
        if self.side is not None:
            known = torch.cat([known, self.side(side)], 1)
        known = self.layers(known)
        return LocationOutput({name: head(known) for name, head in self.heads.items()}, subset, contrastive)

    def remember(self, embeddings: Tensor, seats: Tensor) -> Tensor:
        """What is remembered after each of the frames [N, T, D] of the views of the players `seats` [N]:

        [N, T, bodies * places * memory_dim].
        """
        if self.memory is None:
            raise ConfigError("this net has no memory; set players and enemies, for what a frame reader read")
        return self.memory(torch.unflatten(embeddings, 2, (self.settings.num_places, -1)), seats).flatten(2)  # type: ignore[no-any-return]

    @property
    def _remembers(self) -> int:
        """How many numbers, of one view."""
        return (self.settings.bodies or 0) * self.settings.num_places * self.settings.memory_dim

    def save(self, path: str | Path) -> None:
        """Weights and settings in one safetensors file."""
        save_net(self, "location_net", path)

    @classmethod
    def load(cls, path: str | Path) -> CrossEgoVideoLocationNet:
        """The net that `save` wrote, ready to answer; loading runs no code."""
        return load_net(
            cls, LocationNetSettings, ["location_net"], path, name="location net", give="one that reel saved"
        )

    def _views(self, video: Tensor | None, embeddings: Tensor | None, remembered: Tensor | None) -> Tensor:
        """What was given, if it is what this net reads: [B, A, ...]."""
        named = (("video", video), ("embeddings", embeddings), ("remembered", remembered))
        given = {name: value for name, value in named if value is not None}
        settings = self.settings
        shapes: dict[str, tuple[int | None, ...]] = {"embeddings": (settings.embed_dim,)}
        reads = "embeddings"
        if settings.video_encoder is not None:
            reads, shapes = "video", {"video": settings.clip or ()}
        elif self.memory is not None:
            reads, shapes = "readings", {"embeddings": (None, settings.embed_dim), "remembered": (self._remembers,)}
        if len(given) != 1 or not given.keys() <= shapes.keys():
            raise ConfigError(f"the net was given {' and '.join(given) or 'nothing'}; {_WANTED[reads]}")
        ((name, views),) = given.items()
        if not _fits(views.shape[2:], shapes[name]):
            wanted = ", ".join("T" if size is None else str(size) for size in shapes[name])
            raise ConfigError(f"{name} has shape {tuple(views.shape)}; this net reads [B, A, {wanted}]")
        if name == "video" and views.dtype is not torch.uint8:
            raise ConfigError(f"video is {views.dtype}; give the pixels as uint8, the encoder scales them itself")
        return views

    def _encode(self, views: Tensor, seats: Tensor) -> Tensor:
        """Present views [N, ...] of the players `seats` [N] as embeddings [N, D]."""
        if self.memory is not None and views.dim() == 3:
            return self.remember(views, seats)[:, -1]
        if self._frozen:
            return encode_frozen(self._frozen[0], views).mean(1)
        if self.encoder is None:
            return views
        features: Tensor = self.encoder(views)
        return features.mean(1)

    def _project(
        self, views: Tensor, present: Tensor, moments: Tensor | None
    ) -> tuple[Tensor, ContrastiveOutput | None]:
        if isinstance(self.projector, Projector):
            return self.projector(views), None
        if moments is None:
            moments = torch.arange(len(present), device=present.device)
        elif moments.shape != present.shape[:1]:
            raise ConfigError(f"moments have shape {tuple(moments.shape)}; give one for each of {len(present)} rows")
        output = self.projector(views, moments[:, None].expand_as(present)[present])
        return output.embeddings, output

    def _subset(self, present: Tensor, generator: torch.Generator | None) -> Tensor:
        count = self.settings.num_pov_agents
        if not self.training or count is None:
            return present
        # Lots are drawn for all; the absent come last, and stay out.
        lots = torch.rand(present.shape, generator=generator).to(present.device).masked_fill(~present, 2.0)
        return present & (lots.argsort(1).argsort(1) < count)


def _encoder(settings: LocationNetSettings) -> VideoEncoder | None:
    if settings.video_encoder is None or settings.clip is None:
        return None
    make = frozen_video_encoder if settings.video_encoder.freeze_backbone else make_video_encoder
    return make(settings.video_encoder, ClipShape(*settings.clip))


def _projector(settings: LocationNetSettings, width: int) -> Projector | CrossEgoContrastive:
    """The contrastive module, which has a projector, or a projector alone."""
    term = settings.contrastive
    if not term.enable:
        return Projector(width, settings.hidden_dim, settings.proj_dim)
    return CrossEgoContrastive(
        width,
        settings.proj_dim,
        settings.hidden_dim,
        init_logit_scale=term.init_logit_scale,
        init_logit_bias=term.init_logit_bias,
        learnable_temp=term.learnable_temp,
        turn_off_bias=term.turn_off_bias,
        self_pairs=term.self_pairs,
    )


def _layers(settings: LocationNetSettings) -> tuple[nn.Sequential, int]:
    layers, width = nn.Sequential(), settings.fused_agent_dim + settings.team_embed_dim
    for _ in range(settings.num_hidden_layers):
        layers.extend(
            [nn.Linear(width, settings.hidden_dim), ACTIVATIONS[settings.activation](), nn.Dropout(settings.dropout)]
        )
        width = settings.hidden_dim
    return layers, width


def _mask(mask: Tensor | None, views: Tensor, name: str) -> Tensor:
    if mask is None:
        return torch.ones(views.shape[:2], dtype=torch.bool, device=views.device)
    if mask.shape != views.shape[:2] or mask.dtype is not torch.bool:
        raise ConfigError(f"{name} is {mask.dtype} of shape {tuple(mask.shape)}; give bool {tuple(views.shape[:2])}")
    return mask


def _fits(shape: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    """Whether it is as wanted, where None is any size but nothing."""
    return len(shape) == len(wanted) and all(
        size == want if want is not None else size > 0 for size, want in zip(shape, wanted, strict=True)
    )


def _sides(team: Tensor | None, present: Tensor) -> Tensor:
    if team is None:
        return torch.zeros(len(present), dtype=torch.long, device=present.device)
    if team.shape != present.shape[:1] or team.is_floating_point() or bool(((team < 0) | (team > 1)).any()):
        raise ConfigError(
            f"team is {team.dtype} of shape {tuple(team.shape)}; give 0 or 1 for each of {len(present)} rows"
        )
    return team.long()
