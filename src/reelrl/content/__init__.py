"""Video to work on: clips from files, from games, and drawn by the package itself.

open_clip("carphone_qcif")              a name that `reel clips` lists
open_clip("film.mkv")                   a file
open_clip("generated:street?seed=3")    drawn, the same everywhere
open_clip("atari:Breakout?frames=600")  played
"""

from reelrl.content.clip import Clip, concatenate, superblock_grid
from reelrl.content.frame import Frame
from reelrl.content.read.video import VideoReader
from reelrl.content.sources import open_clip

__all__ = ["Clip", "Frame", "VideoReader", "concatenate", "open_clip", "superblock_grid"]
