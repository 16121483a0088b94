"""What one stage is worth to another, each measured small; docs/results/cross-stage.md has the tables.

    python benchmarks/cross_stage.py embeddings        an autoencoder's embeddings as observations of an encoder's bits
    python benchmarks/cross_stage.py doom              recorded Doom views as content: does the rate rule hold on them?
    python benchmarks/cross_stage.py ladders           true segment sizes against the nominal ladder of the same rates
    python benchmarks/cross_stage.py live              an encoder told the rate of a link that changes

Each prints its table and writes FOLDER/NAME.json (--out, by default docs/results/cross-stage).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reelrl.report.intervals import Interval, mean_interval, paired_interval

Floats = NDArray[np.float64]
HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=list(MEASURES))
    parser.add_argument("--out", type=Path, default=HERE.parent / "docs/results/cross-stage")
    args = parser.parse_args()
    rows, facts = MEASURES[args.what]()
    heads = list(rows[0])
    print(markdown([heads, *([shown(row[head]) for head in heads] for row in rows)]))
    args.out.mkdir(parents=True, exist_ok=True)
    record = {"facts": facts, "rows": [{key: plain(value) for key, value in row.items()} for row in rows]}
    (args.out / f"{args.what}.json").write_text(json.dumps(record, indent=1) + "\n")


# --- embeddings of the streaming autoencoder, as observations ---------------------------------------------------------

FRAMES, BLOCK, QPS, PRESET = 64, 8, (32, 48), 10
LEARNED_FRAMES, SHOWN_FRAMES, SEED = 64, 16, 0
CELLS = 3  # to a side: an embedding is averaged over this many parts of the picture each way
PENALTIES = (1.0, 10.0, 100.0, 1000.0, 10000.0)


class Blocks(NamedTuple):
    """Blocks of `BLOCK` frames of one clip at every QP: what they took, and what is known beforehand."""

    source: str
    octaves: Floats
    """[N]: bits per pixel, log2."""
    qp: Floats
    content: Floats
    """[N, 4]: intra, inter and motion energy (log2), and the largest sign of a cut."""
    before: Floats
    """[N, 1]: the block before, as `octaves`."""
    embeddings: dict[str, Floats]


def embeddings() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """How well the bits of the next frames are foretold with and without embeddings, on clips of other sources."""
    from reelrl.encode.clip_choice import split_clips
    from reelrl.see.learner import StreamingAutoEncoder

    clips = {
        split: [clip.window(0, min(FRAMES, len(clip))).load() for clip in split_clips(split)]
        for split in ("train", "test")
    }
    nets = {"untrained": StreamingAutoEncoder(), "learned": StreamingAutoEncoder()}
    learned = learn(nets["learned"], clips["train"])
    told = {split: [blocks_of(clip, nets) for clip in some] for split, some in clips.items()}
    error = {name: errors(told["train"], told["test"], parts) for name, parts in OBSERVATIONS.items()}
    rows = []
    for name, parts in OBSERVATIONS.items():
        against = "content, bits before" if "before" in parts else "content"
        gain = None if name == against else paired_interval(error[name], error[against])
        rows.append({"observation": name, "error, octaves": mean_interval(error[name]), "against none": gain})
    facts = {
        "train": [clip.name for clip in clips["train"]],
        "test": [clip.name for clip in clips["test"]],
        "frames": FRAMES,
        "block": BLOCK,
        "qps": QPS,
        "encoder": f"svtav1, preset {PRESET}, low delay",
        "frames_learned_from": learned,
        "errors": {name: values.tolist() for name, values in error.items()},
    }
    return rows, facts


OBSERVATIONS = {
    "content": ("content",),
    "content, untrained embedding": ("content", "untrained"),
    "content, learned embedding": ("content", "learned"),
    "content, bits before": ("content", "before"),
    "content, bits before, untrained embedding": ("content", "before", "untrained"),
    "content, bits before, learned embedding": ("content", "before", "learned"),
}


def learn(net: Any, clips: list[Any]) -> int:
    """Each clip's first frames once, in runs that come in a random order; returns how many frames that were."""
    runs = [(clip, at) for clip in clips for at in range(0, min(LEARNED_FRAMES, len(clip)), SHOWN_FRAMES)]
    count = 0
    for number in np.random.default_rng(SEED).permutation(len(runs)):
        clip, at = runs[number]
        for place, frame in enumerate(clip.window(at, min(SHOWN_FRAMES, len(clip) - at))):
            net.learn(pixels(frame), reset=place == 0)
            count += 1
    return count


def pixels(frame: Any) -> Any:
    import torch

    from reelrl.content.pictures import rgb

    return torch.from_numpy(rgb(frame)).permute(2, 0, 1)


def blocks_of(clip: Any, nets: dict[str, Any]) -> Blocks:
    from reelrl.encode import EncoderSettings, encode_clip
    from reelrl.encode.features import analyse, clip_features

    starts = np.arange(1, len(clip) - BLOCK + 1, BLOCK)  # frame 0 is the key frame
    analysis = analyse(clip_features(clip), clip.width, clip.height)
    energies = (analysis.intra_energy, analysis.inter_energy, analysis.motion)
    means = [[np.log2(each[at : at + BLOCK].mean() + 0.1) for each in energies] for at in starts]
    cuts = [[analysis.scene_cut[at : at + BLOCK].max()] for at in starts]
    content = np.concatenate([means, cuts], axis=1)
    frames = [pixels(frame) for frame in clip]
    embedded = {name: pooled(net, frames, starts) for name, net in nets.items()}
    octaves, before = [], []
    for qp in QPS:
        settings = EncoderSettings(backend="svtav1", preset=PRESET, qp=qp)
        sizes = np.array([len(packet.data) for packet in encode_clip(clip, settings).packets], float)
        bits = np.array([8 * sizes[at : at + BLOCK].sum() for at in starts]) / (BLOCK * clip.width * clip.height)
        octaves.append(np.log2(bits)[1:])  # the first block has none before it
        before.append(np.log2(bits)[:-1])
    times = len(QPS)
    return Blocks(
        clip.source,
        np.concatenate(octaves),
        np.repeat(np.array(QPS, float), len(starts) - 1),
        np.tile(content[1:], (times, 1)),
        np.concatenate(before)[:, None],
        {name: np.tile(each[1:], (times, 1)) for name, each in embedded.items()},
    )


def pooled(net: Any, frames: list[Any], starts: NDArray[Any]) -> Floats:
    """[blocks, D]: each block's embedding, and how much it changes from frame to frame, both coarse."""
    import torch
    from torch.nn.functional import adaptive_avg_pool2d

    from reelrl.see.frames.source import to_input

    per_frame = []
    with torch.no_grad():
        for frame in frames:
            maps = net.encode(to_input(frame))
            per_frame.append(maps)
        changes = [
            [adaptive_avg_pool2d((new - old).abs(), CELLS).flatten() for new, old in zip(now, then, strict=True)]
            for now, then in zip(per_frame[1:], per_frame[:-1], strict=True)
        ]
        still = [torch.cat([adaptive_avg_pool2d(each, CELLS).flatten() for each in maps]) for maps in per_frame]
    rows = []
    for at in starts:
        moved = torch.stack([torch.cat(change) for change in changes[at - 1 : at - 1 + BLOCK]]).mean(0)
        rows.append(torch.cat([torch.stack(still[at : at + BLOCK]).mean(0), (moved + 1e-3).log2()]).numpy())
    return np.array(rows, float)


def errors(train: list[Blocks], test: list[Blocks], parts: tuple[str, ...]) -> Floats:
    """RMS error of each test clip, in octaves, by ridge regression; the penalty is chosen on the training sources."""
    sources = sorted({each.source for each in train})
    costs = []
    for penalty in PENALTIES:
        folds = []
        for source in sources:
            fitted = fit([each for each in train if each.source != source], parts, penalty)
            folds += [fitted(each) for each in train if each.source == source]
        costs.append(np.mean(folds))
    fitted = fit(train, parts, PENALTIES[int(np.argmin(costs))])
    return np.array([fitted(each) for each in test])


def fit(clips: list[Blocks], parts: tuple[str, ...], penalty: float) -> Any:
    """A function of a clip's blocks: the RMS of what is foretold wrongly. Only embeddings are held small."""
    few, many = design(clips, parts)
    middle, scale = many.mean(0), many.std(0) + 1e-9
    wanted = np.concatenate([each.octaves for each in clips])
    matrix = np.concatenate([few, (many - middle) / scale], axis=1)
    held = np.diag([1e-6] * few.shape[1] + [penalty] * many.shape[1])
    weights = np.linalg.solve(matrix.T @ matrix + held, matrix.T @ wanted)

    def wrong(clip: Blocks) -> float:
        few, many = design([clip], parts)
        said = np.concatenate([few, (many - middle) / scale], axis=1) @ weights
        return float(np.sqrt(np.mean((said - clip.octaves) ** 2)))

    return wrong


def design(clips: list[Blocks], parts: tuple[str, ...]) -> tuple[Floats, Floats]:
    """What is always known, with its products with the QP, and embeddings."""
    rows, many = [], []
    for each in clips:
        qp = (each.qp[:, None] - 40) / 10
        known = np.concatenate([each.content, each.before], axis=1) if "before" in parts else each.content
        rows.append(np.concatenate([np.ones_like(qp), qp, qp**2, known, known * qp], axis=1))
        chosen = [each.embeddings[name] for name in parts if name in each.embeddings]
        many.append(np.concatenate([*chosen, np.zeros((len(qp), 0))], axis=1))
    return np.concatenate(rows), np.concatenate(many)


# --- Doom views as content --------------------------------------------------------------------------------------------

MATCHES, PLAYERS, VIEW_FRAMES, VIEW_PRESET = 2, 3, 80, 10
QP_LIST = "28,36,44,52"


def doom() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """`reel evaluate minigop` on lossless recordings of what Doom players see."""
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "doom", Path(folder) / "minigop"
        seconds = VIEW_FRAMES * 4 / 35
        collect = [
            "collect",
            "doom",
            "--matches",
            MATCHES,
            "--players",
            PLAYERS,
            "--video",
            "lossless",
            "--seconds",
            seconds,
            "--seed",
            7,
        ]
        reel(*collect, "-o", data)
        views = [in_420(path, Path(folder)) for path in sorted(data.glob("matches/*/player_*.mkv"))]
        judge = [
            "evaluate",
            "minigop",
            "--only",
            "rate-model",
            "--qps",
            QP_LIST,
            "--frames",
            VIEW_FRAMES,
            "--jobs",
            1,
            "--preset",
            VIEW_PRESET,
        ]
        reel(*judge, "--clips", *views, "--out", out)
        summary = json.loads((out / "summary.json").read_text())
    command = " ".join(map(str, ["reel", *collect])), " ".join(map(str, ["reel", *judge, "--clips", "EVERY VIEW"]))
    return doom_rows(summary), {"commands": command, "views": len(views)}


def in_420(recording: Path, folder: Path) -> Path:
    """A recording, which is RGB, as encoders take it."""
    import av

    from reelrl.content.clip import Clip
    from reelrl.content.colour import frame_from_rgb
    from reelrl.content.write.video import write_video

    path = folder / f"{recording.parent.name}-{recording.stem}.y4m"
    with av.open(str(recording)) as file:
        fps = file.streams.video[0].average_rate
        frames = [frame_from_rgb(frame.to_ndarray(format="rgb24").astype(np.uint8)) for frame in file.decode(video=0)]
    write_video(path, Clip.from_frames(frames, fps=fps or 1))
    return path


def doom_rows(summary: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for rate in summary["rates"]:
        row: dict[str, Any] = {"contestant": rate["contestant"], "passes": rate["passes"]}
        row["rate off, %"] = None if rate["error"] is None else Interval(**rate["error"])
        for anchor in ("vbr1", "vbr2"):
            for metric in ("psnr_y", "psnr_y_of_mean"):
                row[f"{metric} vs {anchor}, %"] = verdict(summary, rate["contestant"], anchor, metric)
        rows.append(row)
    return rows


def verdict(summary: dict[str, Any], contestant: str, anchor: str, metric: str) -> Interval | None:
    """BD-rate, per cent."""
    wanted = {"contestant": contestant, "anchor": anchor, "metric": metric}
    for each in summary["verdicts"]:
        if wanted.items() <= each.items() and each["percent"]:
            return Interval(**each["percent"])
    return None


def reel(*words: object) -> None:
    subprocess.run([sys.executable, "-m", "reelrl.cli.main", *map(str, words)], check=True)


# --- ladders with true sizes ------------------------------------------------------------------------------------------

LADDER_CLIPS = {
    "street": "generated:street?size=320x192&frames=900&fps=15",
    "cuts": "generated:cuts?size=320x192&frames=900&fps=15",
}
KBPS, LADDER_PRESET, LINKS, BUFFER_S, QOE = (150.0, 300.0, 500.0, 800.0, 1200.0, 1800.0), 12, 100, 20.0, "scaled"
LADDER_QPS = (48, 43, 38, 33, 28, 23)
CONTROLLERS = ("rate", "bba", "bola(18)", "robustmpc", "scalefree")


def ladders() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """The same controllers on the same links, with segments as large as they are, and as large as their rates say."""
    from reelrl.content.sources import open_clip
    from reelrl.stream.data.ladder_encoding import LadderSettings, encode_ladder
    from reelrl.stream.data.ladders import Ladder

    rows: list[dict[str, Any]] = []
    about: dict[str, Any] = {}
    for label, recipe in LADDER_CLIPS.items():
        for how, asked in {"VBR": {"kbps": KBPS}, "constant QP": {"qps": LADDER_QPS}}.items():
            with tempfile.TemporaryDirectory() as folder:
                settings = LadderSettings(preset=LADDER_PRESET, **asked)  # type: ignore[arg-type]
                true = encode_ladder(open_clip(recipe), Path(folder), settings)
            sizes = true.sizes_bytes
            assert sizes is not None
            # The rates of a ladder are those that its segments really have, so both carry the same bits in all.
            flat = Ladder("nominal", true.bitrates_kbps, true.chunk_s, chunks=len(sizes))
            qoe = {kind: played(ladder) for kind, ladder in {"true": true, "nominal": flat}.items()}
            order = {kind: sorted(CONTROLLERS, key=lambda name: -each[name].mean()) for kind, each in qoe.items()}
            spread = float((sizes.std(0) / sizes.mean(0)).mean())
            name = f"{label}, {how}"
            pairs = swapped(order["true"], order["nominal"])
            about[name] = {
                "kbps": true.bitrates_kbps.tolist(),
                "spread": spread,
                "order": order,
                "pairs_swapped": pairs,
            }
            rows += [compared(f"{name}, {spread:.0%}", each, qoe, order) for each in CONTROLLERS]
    return rows, {"links": LINKS, "buffer_s": BUFFER_S, "qoe": QOE, "preset": LADDER_PRESET, "ladders": about}


def compared(ladder: str, name: str, qoe: dict[str, Any], order: dict[str, list[str]]) -> dict[str, Any]:
    return {
        "ladder, sizes vary by": ladder,
        "controller": name,
        "nominal": mean_interval(qoe["nominal"][name]),
        "true sizes": mean_interval(qoe["true"][name]),
        "true - nominal": paired_interval(qoe["true"][name], qoe["nominal"][name]),
        "place": f"{order['nominal'].index(name) + 1} -> {order['true'].index(name) + 1}",
    }


def played(ladder: Any) -> dict[str, Floats]:
    """QoE of each controller on links that carry about the middle of the ladder, half of them with an outage."""
    from reelrl.seeding import stream
    from reelrl.stream.data.generated_traces import mobile_trace, with_outages
    from reelrl.stream.evaluate import Contestant, EvaluationPlan, play_all

    rng, middle_kbps = stream(0, "benchmark", "ladders"), float(np.median(ladder.bitrates_kbps))
    links = []
    for number in range(LINKS):
        mean_kbps = middle_kbps * float(rng.uniform(0.6, 2.0))
        link = mobile_trace(rng, duration_s=160.0, mean_kbps=mean_kbps, name=f"link {number}")
        links.append(with_outages(link, rng, median_s=4.0, longest_s=10.0) if number % 2 else link)
    plan = EvaluationPlan(preset=None, qoe=QOE, buffer_s=BUFFER_S)
    every = play_all([Contestant.parse(name) for name in CONTROLLERS], links, [ladder], plan)
    return {name: np.array([each.qoe for each in some]) for name, some in every.items()}


def swapped(one: list[str], other: list[str]) -> int:
    """Pairs of controllers that are in another order."""
    return sum(other.index(a) > other.index(b) for a, b in combinations(one, 2))


# --- an encoder under the rate of a link ------------------------------------------------------------------------------

LIVE_CLIPS = (
    "generated:street?size=320x180&frames=100&seed=41",
    "generated:water?size=320x180&frames=100&seed=42",
    "generated:talk?size=320x180&frames=100&seed=43",
    "generated:pan?size=320x180&frames=100&seed=44",
)
LIVE_LINKS, LIVE_BUFFER_S = 3, 0.5
WATCHED = ("cbr", "rule")


def live() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """What a viewer gets of live pictures over a link that changes: by the rule, and by SVT-AV1's CBR."""
    from reelrl.encode.live.link import Uplink
    from reelrl.encode.live.over_link import watch
    from reelrl.seeding import stream
    from reelrl.stream.data.generated_traces import mobile_trace

    rng = stream(0, "benchmark", "live links")
    seen = []
    for number in range(LIVE_LINKS):
        trace = mobile_trace(rng, duration_s=30.0, slow_s=4.0)
        link = Uplink(tuple(trace.edges_s.tolist()), tuple(trace.kbps.tolist()))
        for clip in LIVE_CLIPS:
            seen += watch((clip, f"link {number}", link, WATCHED, LIVE_BUFFER_S))
    values: dict[str, dict[str, Floats]] = {}
    for who in WATCHED:
        mine = [each for each in seen if each.contestant == who]
        late = np.array([100 * each.late / each.frames for each in mine])
        psnr, of_mean = np.array([[each.seen, each.seen_mean] for each in mine]).T
        values[who] = {"late, %": late, "PSNR-Y seen": psnr, "of mean error": of_mean}
    rows: list[dict[str, Any]] = [
        {"contestant": who, **{name: mean_interval(each) for name, each in values[who].items()}} for who in WATCHED
    ]
    paired = {name: paired_interval(values["rule"][name], values["cbr"][name]) for name in values["cbr"]}
    rows.append({"contestant": "rule - cbr", **paired})
    return rows, {"buffer_s": LIVE_BUFFER_S, "viewings": [each.row() for each in seen]}


# ----------------------------------------------------------------------------------------------------------------------


def shown(value: Any) -> str:
    if isinstance(value, Interval):
        return f"{value.mean:.3f} [{value.low:.3f}, {value.high:.3f}]"
    return "" if value is None else str(value)


def plain(value: Any) -> Any:
    return value.plain() if isinstance(value, Interval) else value


def markdown(rows: list[list[str]]) -> str:
    rows = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


MEASURES = {"embeddings": embeddings, "doom": doom, "ladders": ladders, "live": live}

if __name__ == "__main__":
    main()
