"""A policy as one ES module: its weights, the net in plain JavaScript, adapters for dash.js, hls.js and Shaka."""

from __future__ import annotations

import base64
import json
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from reelrl import __version__
from reelrl.errors import ConfigError
from reelrl.stream.controllers.learned import Learned
from reelrl.stream.playback import load_bitrate_controller
from reelrl.stream.scalefree.controller import ScaleFree

if TYPE_CHECKING:
    from torch import nn

EXPORTED = Learned | ScaleFree


def exportable(name: str) -> EXPORTED:
    """The learned controller of that name, run folder or file."""
    controller = load_bitrate_controller(name)
    if not isinstance(controller, Learned | ScaleFree):
        raise ConfigError(
            f"{name} is no policy of `reel train abr`; give `ppo`, `scalefree`, a run folder or its policy.safetensors"
        )
    return controller


def es_module(controller: EXPORTED, name: str) -> str:
    """The text of policy.js."""
    net = "scale_free.js" if isinstance(controller, ScaleFree) else "fixed_rungs.js"
    about = {"policy": name, "kind": net.removesuffix(".js"), "reelrl": __version__, **controller.facts}
    actor = controller.policy.actor
    head = [
        f"// A bitrate policy trained with reelrl {__version__}, without dependencies.",
        "//   import { forDash, forHls, forShaka, Session } from './policy.js'",
        f"export const about = {json.dumps(about)};",
        f"const SHAPE = {json.dumps(_layers(actor, net) | _attitude(controller))};",
        f"const WEIGHTS = {{\n{_weights(actor)}\n}};",
    ]
    folder = files(__package__) / "javascript"
    parts = [(folder / part).read_text(encoding="utf-8") for part in ("session.js", net, "players.js")]
    return "\n".join([*head, "", *parts])


def _layers(actor: nn.Module, net: str) -> dict[str, Any]:
    """Names of the linear layers of the tower, in order. The fixed-rung tower ends in the scores, without SiLU."""
    prefix = "context." if net == "scale_free.js" else ""
    names = [f"{prefix}{index}" for index in range(0, 99, 2) if f"{prefix}{index}.weight" in actor.state_dict()]
    return {"hidden": names} if prefix else {"hidden": names[:-1], "last": names[-1]}


def _attitude(controller: EXPORTED) -> dict[str, float]:
    """What the page's session does unless its wishes say otherwise."""
    names = ("caution", "thrift", "ease_s") if isinstance(controller, ScaleFree) else ()
    return {name: getattr(controller, name) for name in names}


def _weights(actor: nn.Module) -> str:
    """Name: shape and little-endian float32 as base64, a line each."""
    lines = []
    for name, tensor in actor.state_dict().items():
        array = tensor.detach().cpu().numpy().astype(np.dtype("<f4"))
        lines.append(f"  {json.dumps(name)}: {json.dumps([array.shape, base64.b64encode(array.tobytes()).decode()])}")
    return ",\n".join(lines)
