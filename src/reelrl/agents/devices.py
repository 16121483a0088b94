"""Where a learner runs."""

from __future__ import annotations

import torch

from reelrl.errors import ConfigError


def use_device(name: str | None = None, threads: int = 1) -> torch.device:
    """The device of that name, after something was really put on it; None is a GPU where there is one.

    Torch uses `threads` CPU threads from now on: beside other busy processes more than one is often slower.
    """
    if threads < 1:
        raise ConfigError(f"threads = {threads}; give 1 or more")
    torch.set_num_threads(threads)
    chosen = name or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(chosen)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {chosen!r} cannot be used ({reason}); choose cpu, or cuda with a GPU") from error
    return device
