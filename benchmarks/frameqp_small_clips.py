"""The nine small development clips that searches and agents over frames learn from, as Y4M files in a folder.

python benchmarks/frameqp_small_clips.py small

Filmed ones come from `REELRL_DATA` and are shrunk: a search codes each of them hundreds of times.
"""

from __future__ import annotations

import sys
from pathlib import Path

from reelrl.content.scaling import scaled_clip
from reelrl.content.sources import open_clip
from reelrl.content.write.video import write_video

FRAMES = 64
SIZES = {
    "carphone_qcif": (176, 144),
    "akiyo_coastguard_cif": (176, 144),
    "bikes_320x136": (160, 68),
    "bloom_480x270": (160, 90),
    "drive_640x360": (160, 90),
    **{f"generated:{style}?size=176x144": (176, 144) for style in ("street", "pan", "cuts", "screen")},
}


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, (width, height) in SIZES.items():
        clip = open_clip(name)
        clip = scaled_clip(clip.window(0, min(FRAMES, clip.frame_count)), width, height)
        subject = name.partition("?")[0].removeprefix("generated:").partition("_")[0]
        write_video(folder / f"{subject}.y4m", clip)
        print(f"{subject:10}  {width}x{height}  {clip.frame_count} frames", flush=True)


if __name__ == "__main__":
    main()
