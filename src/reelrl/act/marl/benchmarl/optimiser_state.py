"""What BenchMARL's checkpoints leave out: the optimisers' memory, and where chance stands.

experiment = Experiment(..., callbacks=[KeepOptimisers()])     # its own checkpoints hold them from then on
"""

from __future__ import annotations

from typing import Any

from benchmarl.experiment.callback import Callback

from reelrl import seeding


class KeepOptimisers(Callback):  # type: ignore[misc]
    """Adds them to the state, and puts them back."""

    def on_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict["optimisers"] = {
            group: {name: optimiser.state_dict() for name, optimiser in by_loss.items()}
            for group, by_loss in self.experiment.optimizers.items()
        }
        state_dict["chance"] = seeding.capture_globals()

    def on_load_state_dict(self, state_dict: dict[str, Any]) -> None:
        for group, by_loss in state_dict.get("optimisers", {}).items():
            for name, state in by_loss.items():
                self.experiment.optimizers[group][name].load_state_dict(state)
        if "chance" in state_dict:
            seeding.restore_globals(state_dict["chance"])

    def __getstate__(self) -> dict[str, Any]:
        return {}  # BenchMARL pickles its callbacks, and they hold the whole experiment
