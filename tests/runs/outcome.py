"""What a run that ended left, but for its clocks: equal bits, however often the run was stopped, killed and resumed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from reelrl.runs.folder import RunFolder


def outcome(run: RunFolder) -> dict[str, Any]:
    """The last checkpoint, the logs and the policies."""
    saved = run.checkpoints.latest()
    if saved is None:
        raise RuntimeError(f"{run.folder} has no checkpoint")
    # A name that begins with a dot is of a file that a kill left half written.
    policies = sorted({*run.artifacts.glob("[!.]*.safetensors"), *run.artifacts.glob("[!.]*.pt")})
    return {
        "step": saved.step,
        "tensors": {name: (array.dtype.str, array.tobytes()) for name, array in saved.tensors.items()},
        # As text, in which one NaN is like another.
        "state": json.dumps(without_clock(saved.state)),
        "metrics": without_clock(list(run.metrics())),
        "episodes": without_clock(list(run.episodes())),
        "policies": {path.name: path.read_bytes() for path in policies if not path.name.startswith("interrupted")},
    }


def without_clock(value: Any) -> Any:
    """The same without what a clock said, and without where logs ended when it was saved."""
    if isinstance(value, dict):
        return {key: without_clock(item) for key, item in value.items() if key != "logs" and not _is_clock(key)}
    return [without_clock(item) for item in value] if isinstance(value, list) else value


def _is_clock(key: str) -> bool:
    return key == "t" or key.endswith(("time_s", "elapsed_s", "wall_s", "seconds", "per_s", "cpu_s")) or "timer" in key
