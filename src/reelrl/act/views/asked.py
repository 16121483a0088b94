"""The views that all encoders are asked about, and the labels that probes may learn from: opened once for everybody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from reelrl.act.location.dataset import LEAST, label_map
from reelrl.act.location.samples import Moments, SampleSettings
from reelrl.act.recording.reader import Matches
from reelrl.act.views.questions import Questions, labelled
from reelrl.errors import ConfigError, ContentError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from reelrl.act.recording.reader import MatchInfo


@dataclass(frozen=True, eq=False)
class AskedViews:
    """Moments of the matches with labels, by split; and of those on other maps, as "retrieval", if there are any."""

    data: Matches
    map: str
    split: str
    """That is scored."""
    stride: int
    moments: dict[str, Moments]
    questions: dict[str, Questions]
    """By split, but for retrieval."""
    left_out: list[str]
    """Matches without labels."""

    @classmethod
    def of(cls, data: Matches, *, split: str, map_name: str | None, stride: int) -> AskedViews:
        map_name = label_map(data, map_name)
        plan, samples = data.map(map_name), SampleSettings(frames=1, stride=stride, ahead_s=1e-9)
        left_out: list[str] = []
        splits = list(dict.fromkeys(["train", "val", split]))
        matches = {name: _labelled_matches(data, name, map_name, left_out) for name in splits}
        moments = {name: Moments.of(data, each, samples, None) for name, each in matches.items()}
        questions = {name: Questions.of(data, each, plan) for name, each in moments.items()}
        for name, asked in questions.items():
            if not asked.known.any():
                raise ContentError(
                    f"no match of split {name!r} in {data.folder} is long enough to ask about 10 s ahead; collect "
                    "longer ones, with --seconds 20 or more"
                )
        elsewhere = [info for info in data.matches if info.split == "retrieval"]
        if elsewhere:
            moments["retrieval"] = Moments.of(data, elsewhere, samples, None)
        return cls(data, map_name, split, stride, moments, questions, left_out)

    def truth(self, split: str) -> NDArray[np.bool_]:
        """[views, questions, places]"""
        return self.questions[split].truth[self.questions[split].known]

    @property
    def match(self) -> NDArray[np.int64]:
        """The match of each view that is scored."""
        return self.moments[self.split].match[np.nonzero(self.questions[self.split].known)[0]]

    def with_labels(self, share: float, seed: int) -> NDArray[np.int64]:
        """Numbers of the training views that have labels: those of a share of the moments."""
        moment = np.nonzero(self.questions["train"].known)[0]
        numbers = np.flatnonzero(np.isin(moment, labelled(len(self.moments["train"]), share, seed)))
        if len(numbers) < 2:
            raise ConfigError(f"{share:.2%} of the labels are those of {len(numbers)} views; give a larger share")
        return numbers

    def apart_rows(self, seconds: float) -> int:
        """Rows that many seconds apart, as a whole number of strides."""
        return max(1, round(seconds * self.data.rows_per_second / self.stride)) * self.stride


def _labelled_matches(data: Matches, split: str, map_name: str, left_out: list[str]) -> Sequence[MatchInfo]:
    there = [info for info in data.matches if info.split == split and info.map == map_name]
    matches = [info for info in there if info.labelled]
    left_out += [info.id for info in there if not info.labelled]
    if len(matches) < LEAST[split]:
        lost = f" ({len(there) - len(matches)} more have no labels)" if len(there) > len(matches) else ""
        raise ContentError(
            f"{data.folder} has {len(matches)} of the {LEAST[split]} or more matches of split {split!r} on map "
            f"{map_name} that are needed{lost}; six matches have all splits: reel collect doom --matches 6 -o "
            f"{data.folder}"
        )
    return matches
