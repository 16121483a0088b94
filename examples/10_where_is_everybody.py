"""Say where everybody is from what one player sees: record matches, train a frame reader and a net, compare.

The steps are those of `reel collect doom`, `reel train frame-reader`, `reel train location`, `reel evaluate location`.
Matches of seconds and small nets show the way; the figures of docs/results/location.md took 240 matches.

python examples/10_where_is_everybody.py [FOLDER]      needs [train,doom]; about a minute
"""

import sys
from pathlib import Path

from reelrl.act import MatchData
from reelrl.cli.main import main


def reel(*words):
    """Run a command of `reel`; stop where it fails."""
    if status := main([str(word) for word in words]):
        raise SystemExit(status)


def settings(*changes):
    return [word for change in changes for word in ("--set", change)]


if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    data, runs = folder / "matches", folder / "runs"

    # Of six matches four teach, one chooses the epoch, one judges.
    reel("collect", "doom", "--matches", 6, "--seconds", 12, "--resolution", "RES_160X120", "-o", data)
    match = MatchData.open(data).match("haunted_rooms-0000")
    print("views", match.frames(0, [0, 8]).shape, "   players at", match.labels.position[0, :, :2].round().tolist())

    small = "net={channels: [8, 16], blocks: [0, 0], embed_dim: 16, column_dim: 16}"
    reel("train", "frame-reader", data, "--epochs", 2, "--output-dir", runs, *settings("stride=4", small))
    reel(
        *("train", "location", data, "--frame-reader", runs / "0001", "--epochs", 2, "--output-dir", runs),
        *settings("net.proj_dim=16", "net.fused_agent_dim=16", "net.hidden_dim=16", "samples.ahead_s=1.0"),
    )
    reel("evaluate", "location", runs / "0002", "-o", folder / "report")
