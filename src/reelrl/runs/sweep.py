"""A sweep as an Optuna study in a folder: whoever opens the folder, now or after a kill, goes on with the same study.

folder/study.journal   what Optuna knows; processes that work at the same time all write to it
folder/runs/           the run folders of the trainings
folder/trials.csv      one line per trial, once it is over
folder/best.yaml       the best settings, for `reel train ... --config`
"""

from __future__ import annotations

import json
import math
import warnings
from contextlib import contextmanager
from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reelrl import names
from reelrl.errors import RunError
from reelrl.runs.folder import RunFolder
from reelrl.runs.records import to_plain
from reelrl.runs.stages import STAGES
from reelrl.runs.sweep_plan import SearchedSetting, SweepPlan, Value, nested
from reelrl.settings import config
from reelrl.storage.cache import key_of
from reelrl.storage.regular_files import own_path, read_regular

if TYPE_CHECKING:
    from collections.abc import Iterator

    import optuna

JOURNAL, PLAN = "study.journal", "sweep.yaml"


@dataclass(frozen=True)
class TrialRow:
    """A trial that is over."""

    number: int
    state: str
    value: float | None
    settings: dict[str, Value]
    seconds: float
    seeds: list[int]
    runs: list[str]
    error: str = ""
    draw: int = 0

    def row(self) -> dict[str, Any]:
        """Flat, for a table."""
        return {
            "number": self.number,
            "state": self.state,
            "value": self.value,
            **self.settings,
            "seconds": round(self.seconds, 1),
            "seeds": " ".join(map(str, self.seeds)),
            "runs": " ".join(self.runs),
            "error": self.error,
        }


class Sweep:
    """A plan and the study of it."""

    def __init__(self, folder: str | Path, plan: SweepPlan, seed: int = 0) -> None:
        self.folder, self.plan = Path(folder), plan
        self.study = _study(self.folder, plan, seed)

    @classmethod
    def begin(cls, folder: Path, plan: SweepPlan, seed: int) -> Sweep:
        """A new study, or the one that is there if it is of the same plan; more trials may be asked for."""
        saved = own_path(folder / PLAN)
        if saved.exists():
            before = config.load(SweepPlan, saved)
            if _comparable(before) != _comparable(plan):
                raise RunError(
                    f"{folder} holds a sweep with other settings; use another folder, or the plan in {saved}"
                )
        (folder / "runs").mkdir(parents=True, exist_ok=True)
        config.save(plan, saved)
        sweep = cls(folder, plan, seed)
        sweep._end_lost()
        return sweep

    def left(self) -> list[tuple[int, tuple[int, ...]]]:
        """(draw, seeds) of each trial that is still to be made. One that failed is made again.

        A draw says where the sampler's chance comes from. Each is taken once, so that a sweep that was stopped does not
        propose its first trials again.
        """
        over = [row for row in self.rows() if row.state != "failed"]
        taken = {row.draw for row in over}
        if self.plan.search:
            free = [draw for draw in range(self.plan.trials + len(over)) if draw not in taken]
            return [(draw, self.plan.seeds) for draw in free[: max(self.plan.trials - len(over), 0)]]
        there = {seed for row in over for seed in row.seeds}
        return [(draw, (seed,)) for draw, seed in enumerate(self.plan.seeds) if seed not in there]

    def ask(self, seeds: tuple[int, ...], draw: int = 0) -> tuple[optuna.trial.Trial, dict[str, Value]]:
        """A trial to make, and the settings chosen for it."""
        trial = self.study.ask()
        trial.set_user_attr("seeds", list(seeds))
        trial.set_user_attr("draw", draw)
        return trial, {key: _suggested(trial, key, searched) for key, searched in self.plan.search.items()}

    def tell(
        self, trial: optuna.trial.Trial, value: float, runs: list[Path], *, pruned: bool = False, error: str = ""
    ) -> None:
        """What became of a trial."""
        from optuna.trial import TrialState

        trial.set_user_attr("runs", [str(run) for run in runs])
        if error:
            trial.set_user_attr("error", error)
        if pruned:
            self.study.tell(trial, state=TrialState.PRUNED)
        elif error or not math.isfinite(value):
            self.study.tell(trial, state=TrialState.FAIL)
        else:
            self.study.tell(trial, value)

    def rows(self) -> list[TrialRow]:
        """Trials that are over, in their order."""
        states = {"COMPLETE": "done", "PRUNED": "pruned", "FAIL": "failed"}
        return [
            TrialRow(
                number=trial.number,
                state=states[trial.state.name],
                value=trial.value if trial.state.name == "COMPLETE" else _last(trial.intermediate_values),
                settings=dict(trial.params),
                seconds=trial.duration.total_seconds() if trial.duration else 0.0,
                seeds=list(trial.user_attrs.get("seeds", [])),
                runs=list(trial.user_attrs.get("runs", [])),
                error=str(trial.user_attrs.get("error", "")),
                draw=int(trial.user_attrs.get("draw", trial.number)),
            )
            for trial in self.study.get_trials(deepcopy=False)
            if trial.state.is_finished()
        ]

    def best(self) -> TrialRow | None:
        done = [row for row in self.rows() if row.state == "done" and row.value is not None]
        sign = 1 if self.plan.goal == "maximise" else -1
        return max(done, key=lambda row: sign * (row.value or 0.0), default=None)

    def best_config(self) -> dict[str, Any]:
        """The settings of the best trial, as `--config` takes them: what differs from the defaults."""
        best = self.best()
        if best is None:
            raise RunError(f"no trial of {self.folder} came to an end; see the logs in {self.folder / 'logs'}")
        try:
            run = RunFolder(best.runs[0])
        except (RunError, IndexError):  # it was made on a machine that has folders of its own
            return nested(best.settings)
        stage = names.resolve({name: each.settings for name, each in STAGES.items()}, self.plan.train)
        settings = run.settings(stage)
        # A setting without a default is part of the difference from any other run.
        needed = {field.name: getattr(settings, field.name) for field in fields(stage) if _is_required(field)}
        return {**to_plain(needed), **config.differences(settings, stage(**needed))}

    def importances(self) -> dict[str, float]:
        """Each setting's share in what makes a trial one of the better ones (PED-ANOVA); empty with few trials."""
        import optuna

        done = [row for row in self.rows() if row.state == "done"]
        if len(done) < 4 or len(self.plan.search) < 2:
            return {}
        with _without_warnings():
            shares = optuna.importance.get_param_importances(
                self.study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
            )
        return {key: float(share) for key, share in shares.items()}

    def _end_lost(self) -> None:
        """Trials of a driver that was killed have nobody who ends them."""
        from optuna.trial import TrialState

        for trial in self.study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            self.study.tell(trial.number, state=TrialState.FAIL)


def figures_of(run: Path, figure: str) -> list[tuple[int, float]]:
    """(step, value) of one figure, as far as the run has logged it; half a line at the end is still being written."""
    try:
        lines = read_regular(run / "metrics.jsonl").decode().split("\n")
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get(figure), int | float):
            found.append((int(record["step"]), float(record[figure])))
    return found


def _is_required(field: Field[Any]) -> bool:
    return field.init and field.default is MISSING and field.default_factory is MISSING


def _comparable(plan: SweepPlan) -> str:
    plain = config.to_mapping(plan)
    plain.pop("trials")
    return key_of(plain)


def _study(folder: Path, plan: SweepPlan, seed: int) -> optuna.Study:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with _without_warnings():
        # Locks by opening a new file: they hold on network file systems too.
        backend = optuna.storages.journal.JournalFileBackend(str(folder / JOURNAL))
        pruner = (
            optuna.pruners.MedianPruner(n_startup_trials=plan.warmup, n_warmup_steps=0)
            if plan.prune
            else optuna.pruners.NopPruner()
        )
        return optuna.create_study(
            study_name="sweep",
            storage=optuna.storages.JournalStorage(backend),
            sampler=optuna.samplers.TPESampler(seed=seed, constant_liar=True),
            pruner=pruner,
            direction=f"{plan.goal[:-3]}ize",
            load_if_exists=True,
        )


def _suggested(trial: optuna.trial.Trial, key: str, searched: SearchedSetting) -> Value:
    chosen: Value
    if searched.choices:
        chosen = trial.suggest_categorical(key, list(searched.choices))
        return chosen
    low, high = searched.low or 0, searched.high or 0
    if searched.whole:
        chosen = trial.suggest_int(key, int(low), int(high), log=searched.log)
    else:
        chosen = trial.suggest_float(key, float(low), float(high), log=searched.log)
    return chosen


def _last(values: dict[int, float]) -> float | None:
    return values[max(values)] if values else None


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Optuna marks what is new in it as experimental."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
