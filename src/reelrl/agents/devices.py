"""Where a learner runs."""

from __future__ import annotations

import torch

from reelrl.errors import ConfigError


def use_device(name: str | None = None, threads: int = 1) -> torch.device:
    """The device of that name, as `pick_device` finds it; torch uses `threads` CPU threads from now on."""
    use_threads(threads)
    return pick_device(name)


def pick_device(name: str | None = None) -> torch.device:
    """The device of that name, after something was really put on it; None and "auto" are a GPU where there is one."""
    chosen = name if name and name != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(chosen)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigError(f"device {chosen!r} cannot be used ({reason}); choose cpu, or cuda with a GPU") from error
    return device


def use_threads(count: int) -> None:
    """How many CPU threads torch may use: small networks are fastest on one, above all beside other busy processes."""
    if count < 1:
        raise ConfigError(f"threads = {count}; give 1 or more")
    torch.set_num_threads(count)
