"""Moving scenes for generated clips; each differs from the others in what it asks of an encoder.

A scene paints any frame by its number alone, so a clip can start anywhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

import numpy as np

from reelrl.content.generated.canvas import SINE, SUBPIXEL, TURN, cover, mix, noise, pick, ripple, sine, stamp
from reelrl.content.generated.scenery import (
    blank,
    box,
    car,
    cloudy,
    glow,
    house,
    hue,
    oval,
    page,
    pointer,
    rgb,
    roughen,
    walker,
    write,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from reelrl.content.generated.canvas import Picture


class Scene(Protocol):
    grain: int
    """Strength of film grain, about 0.3 levels rms each."""

    def paint(self, canvas: Picture, t: int) -> int:
        """Fill the canvas with frame `t`; returns the light, 256 being normal."""
        ...


class Street:
    """A camera that sways past shops; cars and people cross. Night turns the lights on and the grain up."""

    def __init__(self, width: int, height: int, seed: int, *, night: bool = False) -> None:
        self.width, self.height, self.seed, self.night = width, height, seed, night
        self.grain = 26 if night else 5
        self.world = 2 * width
        self.tremor = SUBPIXEL * height // (200 if night else 500)
        # The camera looks past the lower edge when it shakes; repeat the last row there.
        margin = ((0, self.tremor * 3 // SUBPIXEL + 2), (0, 0), (0, 0))
        self.far = np.pad(self._far(), margin, "edge")
        self.near = np.pad(self._near(), margin, "edge")
        self.cars = [car(max(16, height * pick(seed, 60 + k, 28, 38) // 100), seed * 7 + k) for k in range(4)]
        tall = max(12, height * 17 // 100)
        self.walkers = [[walker(tall, seed * 5 + k, pose) for pose in range(4)] for k in range(5)]
        self.lamp = glow(max(4, height // 7), rgb(255, 225, 160))
        self.beam = glow(max(3, height // 16), rgb(255, 250, 225))
        if night:
            for layer in (self.far, *self.cars, *(pose for poses in self.walkers for pose in poses)):
                _darken(layer, keep_above=255)
            _darken(self.near, keep_above=190)

    def paint(self, canvas: Picture, t: int) -> int:
        camera = sine(t * 4, self.width * 60) + self._shake(t, 0)
        lift = self._shake(t, 1) + self.tremor * 3 // 2
        cover(canvas, self.far, camera // 4 + t * 20, lift // 3, SUBPIXEL)
        cover(canvas, self.near, camera, lift, SUBPIXEL)
        self._people(canvas, t, camera, lift)
        self._traffic(canvas, t, camera, lift)
        if self.night:
            for x in range(0, self.world, self.world // 5):
                self._place(canvas, self.lamp, x * SUBPIXEL, self.height * 30 // 100, camera, lift)
            return 256
        return 256 + sine(t * 3 + pick(self.seed, 3, 0, TURN), 22)

    def _shake(self, t: int, axis: int) -> int:
        return sine(t * 61 + axis * 300, self.tremor) + sine(t * 103 + axis * 77, self.tremor // 2)

    def _people(self, canvas: Picture, t: int, camera: int, lift: int) -> None:
        for k, poses in enumerate(self.walkers):
            pace = pick(self.seed, 20 + k, 30, 75) * self.height // 100 * (1 if k % 2 else -1)
            start = pick(self.seed, 30 + k, 0, self.world) * SUBPIXEL
            sprite = poses[(t // 5 + k) % 4]
            if pace < 0:
                sprite = np.ascontiguousarray(sprite[:, ::-1])
            self._place(canvas, sprite, start + pace * t, self.height * (56 + k) // 100, camera, lift)

    def _traffic(self, canvas: Picture, t: int, camera: int, lift: int) -> None:
        for k, sprite in enumerate(self.cars):
            pace = pick(self.seed, 40 + k, 180, 420) * self.height // 100 * (1 if k % 2 else -1)
            start = pick(self.seed, 50 + k, 0, self.world) * SUBPIXEL
            top = self.height * (68 if k % 2 else 80) // 100
            body = sprite if pace > 0 else np.ascontiguousarray(sprite[:, ::-1])
            self._place(canvas, body, start + pace * t, top, camera, lift)
            if self.night:
                nose = sprite.shape[1] if pace > 0 else 0
                x = start + pace * t + (nose - self.beam.shape[1] // 2) * SUBPIXEL
                self._place(canvas, self.beam, x, top, camera, lift)

    def _place(self, canvas: Picture, sprite: Picture, x: int, top: int, camera: int, lift: int) -> None:
        """Stamp at a place in the world, which repeats."""
        margin = sprite.shape[1] * SUBPIXEL
        stamp(canvas, sprite, (x - camera + margin) % (self.world * SUBPIXEL) - margin, top * SUBPIXEL - lift)

    def _far(self) -> Picture:
        layer = blank(self.height, self.world, (170, 140, 116))
        layer[..., 0] = 190 - 40 * np.arange(self.height)[:, None] // self.height
        clouds = noise(self.height, self.world, self.height // 3, 4, self.seed)[..., None].astype(np.int32)
        layer[..., :1] = np.clip(layer[..., :1] + np.maximum(0, clouds - 120) // 2, 16, 235)
        x = 0
        while x < self.world:
            wide, tall = pick(self.seed, 70 + x, self.height // 8, self.height // 4), pick(self.seed, 71 + x, 40, 68)
            top = self.height * (80 - tall) // 100
            tower = roughen(blank(self.height - top, wide, hue(self.seed, 72 + x, 120)), 20, 8, self.seed + x)
            tower[4::6, 2::5, 0] = 95
            layer[top:, x : x + wide] = tower[:, : self.world - x]
            x += wide + pick(self.seed, 73 + x, 0, self.height // 10)
        return layer

    def _near(self) -> Picture:
        height, kerb = self.height, self.height * 68 // 100
        layer = blank(height, self.world)
        x = 0
        while x < self.world:
            wide = min(self.world - x, pick(self.seed, 80 + x, height * 35 // 100, height * 60 // 100))
            tall = pick(self.seed, 81 + x, height * 32 // 100, height * 58 // 100)
            layer[kerb - tall : kerb, x : x + wide] = house(wide, tall, self.seed * 3 + x, night=self.night)
            x += wide
        road = roughen(blank(height - kerb, self.world, (92, 128, 128)), 26, 7, self.seed + 9)
        box(road, 0, 0, self.world, max(2, height * 5 // 100), (140, 126, 130))
        road = roughen(road, 22, 3, self.seed + 10)
        for mark in range(0, self.world, max(2, self.world // 16)):
            box(road, mark, (height - kerb) * 55 // 100, self.world // 40, max(1, height // 110), (205, 126, 130))
        layer[kerb:] = road
        return layer


class Night(Street):
    """The street at night, hand-held."""

    def __init__(self, width: int, height: int, seed: int) -> None:
        super().__init__(width, height, seed, night=True)


def _darken(layer: Picture, keep_above: int) -> None:
    """Nightfall; what is brighter than the limit is a light and stays."""
    level = layer[..., 0].astype(np.int32)
    dark = level <= keep_above
    layer[dark, 0] = 16 + (level[dark] - 16) * 3 // 10
    layer[dark, 1:3] = 64 + layer[dark, 1:3] // 2


class Terrain:
    """Land from the air: the camera flies in curves, sinks and climbs, cloud shadows pass."""

    grain = 3

    def __init__(self, width: int, height: int, seed: int) -> None:
        self.width, self.height, self.seed = width, height, seed
        self.land = self._land(height * 2, width * 2)
        self.shadow = cloudy(height, width, height // 2, seed + 5, (30, 128, 128), 160)

    def paint(self, canvas: Picture, t: int) -> int:
        step = SUBPIXEL - 40 + sine(t * 3 + pick(self.seed, 1, 0, TURN), 70)
        x = t * self.width * SUBPIXEL // 260 + sine(t * 5, self.height * 40)
        y = sine(t * 3, self.height * 120) + t * 60
        # Zoom around the middle of the picture.
        cover(canvas, self.land, x - self.width // 2 * step, y - self.height // 2 * step, step)
        cover(canvas, self.shadow, x // 2 - self.width // 2 * step, y // 2 + t * 90, step)
        return 256 + sine(t * 2, 16)

    def _land(self, height: int, width: int) -> Picture:
        level = noise(height, width, self.height // 2, 6, self.seed).astype(np.int32)
        detail = noise(height, width, max(4, self.height // 24), 4, self.seed + 50).astype(np.int32) - 128
        patch = noise(height, width, self.height // 6, 1, self.seed + 90).astype(np.int32) // 40
        layer = blank(height, width, (100, 116, 122))
        bands = [(0, (62, 150, 108), 1), (92, (175, 112, 140), 2), (99, (112, 108, 120), 3), (128, (80, 112, 118), 6)]
        for floor, colour, rough in [*bands, (165, (60, 116, 118), 7), (205, (140, 126, 130), 7)]:
            there = level >= floor
            layer[there, :3] = colour
            layer[there, 0] = np.clip(colour[0] + detail[there] * rough // 16, 16, 235)
        farmed = (level > 104) & (level < 150) & (patch % 2 == 1)
        rows, columns = np.ogrid[:height, :width]
        furrow = ((rows + columns * (patch - 2)) // 3 % 2) * 26
        layer[farmed, 0] = np.clip(130 + furrow[farmed] + detail[farmed] // 8, 16, 235)
        layer[farmed, 1], layer[farmed, 2] = 104, 126 + patch[farmed] * 4
        self._roads(layer)
        return layer

    def _roads(self, layer: Picture) -> None:
        height, width = layer.shape[:2]
        for road in range(3):
            for x in range(width):
                y = height * (2 * road + 1) // 6 + sine(x * TURN // width + road * 200, height // 9)
                box(layer, x, y, 1, max(2, height // 130), (178, 124, 132))


class Water:
    """A lake: waves that cross, a boat that rocks, a wooded shore. Nothing moves as a block."""

    grain = 4

    def __init__(self, width: int, height: int, seed: int) -> None:
        self.width, self.height, self.seed = width, height, seed
        self.horizon = height * 38 // 100
        self.shore = self._shore()
        self.texture: Picture = noise(height, width, max(4, height // 10), 4, seed + 3)
        self.waves: NDArray[np.int64] = np.array([self._wave(k, size) for k, size in enumerate((17, 14, 12, 10, 8))])
        self.waves[:, :2] = self.waves[:, :2] * 288 // height
        self.boat = self._boat()

    def paint(self, canvas: Picture, t: int) -> int:
        cover(canvas, self.shore, t * 14, 0, SUBPIXEL)
        ripple(canvas, self.horizon, self.texture, self.waves, SINE, t)
        x = (self.width * 140 + t * 150 * self.height // 288) % ((self.width + self.boat.shape[1]) * SUBPIXEL)
        y = self.horizon * SUBPIXEL - self.boat.shape[0] * 140 + sine(t * 17, self.height * 2)
        stamp(canvas, self.boat, x - self.boat.shape[1] * SUBPIXEL, y)
        return 256 + sine(t * 4, 10)

    def _wave(self, k: int, size: int) -> tuple[int, int, int, int]:
        """(across, down, speed, height) of one wave; small ones are shorter."""
        seed = self.seed
        across, down = pick(seed, 10 + 4 * k, -150, 150), pick(seed, 11 + 4 * k, 200, 420)
        return across * (k + 2) // 3, down * (k + 2) // 3, pick(seed, 12 + 4 * k, 8, 30), size

    def _shore(self) -> Picture:
        layer = blank(self.height, 2 * self.width, (196, 136, 120))
        clouds = noise(self.height, 2 * self.width, self.height // 3, 5, self.seed).astype(np.int32)
        layer[..., 0] = np.clip(165 + clouds // 4, 16, 235)
        ridge = noise(1, 2 * self.width, self.height // 3, 4, self.seed + 1)[0].astype(np.int64) * self.horizon // 420
        rows = np.arange(self.height)[:, None]
        wood = (rows > self.horizon - ridge) & (rows <= self.horizon)
        leaves = noise(self.height, 2 * self.width, max(3, self.height // 40), 4, self.seed + 2).astype(np.int32)
        layer[wood, 0], layer[wood, 1], layer[wood, 2] = 45 + leaves[wood] // 3, 114, 120
        return layer

    def _boat(self) -> Picture:
        long = max(20, self.height // 3)
        layer = blank(long, long)
        for row in range(long * 3 // 4, long):
            inset = (row - long * 3 // 4) * 3 // 5
            box(layer, inset, row, long - 2 * inset, 1, (60, 118, 160))
        for row in range(long * 7 // 10):
            box(layer, long // 2 + 2, row, row // 2, 1, (220, 126, 130))
            box(layer, long // 2 - 2 - row // 3, row, row // 3, 1, (190, 130, 134))
        box(layer, long // 2 - 1, 0, 3, long * 3 // 4, (50, 124, 136))
        return layer


class Talk:
    """Head and shoulders before a shelf: most of the picture stands still, a face moves."""

    grain = 6

    def __init__(self, width: int, height: int, seed: int) -> None:
        self.width, self.height, self.seed = width, height, seed
        self.room = self._room()
        self.faces = [[self._face(blink, mouth) for mouth in range(5)] for blink in (False, True)]
        self.body = self._body()

    def paint(self, canvas: Picture, t: int) -> int:
        cover(canvas, self.room, 0, 0, SUBPIXEL)
        sway = sine(t * 9, self.height * 3) + sine(t * 23, self.height)
        nod = sine(t * 13 + 90, self.height * 2)
        middle = self.width * 128
        stamp(canvas, self.body, middle - self.body.shape[1] * 128 + sway // 3, self.height * 152 + nod // 4)
        loud = (sine(t * 97, 5) + sine(t * 151, 4)) * (1 if sine(t * 6, 4) > -2 else 0)
        face = self.faces[t % 71 < 4][min(4, abs(loud))]
        stamp(canvas, face, middle - face.shape[1] * 128 + sway, self.height * 28 + nod)
        return 256 + sine(t * 2, 4)

    def _room(self) -> Picture:
        layer = roughen(blank(self.height, self.width, hue(self.seed, 1, 150)), 24, self.height // 4, self.seed)
        pitch = max(8, self.height // 4)
        for shelf in range(pitch, self.height, pitch):
            x = self.width // 40
            while x < self.width:
                wide, tall = pick(self.seed, shelf * 7 + x, 3, 9) * self.height // 288 + 1, pick(self.seed, x, 55, 85)
                spine = roughen(blank(pitch * tall // 100, wide, hue(self.seed, x + shelf, 90)), 60, 5, x)
                target = layer[shelf - spine.shape[0] : shelf, x : x + wide]
                target[...] = spine[:, : target.shape[1]]
                x += wide + (self.width // 12 if mix(self.seed, x, shelf) % 9 == 0 else 1)
            box(layer, 0, shelf, self.width, max(2, self.height // 70), (92, 116, 142))
        return layer

    def _body(self) -> Picture:
        wide, high = self.width * 6 // 10, self.height * 6 // 10
        layer = blank(high, wide)
        coat = hue(self.seed, 20, 85)
        oval(layer, wide // 2, high, wide // 2 - 1, high * 9 // 10, coat)
        shape = layer[..., 3].copy()
        layer = roughen(layer, 50, 4, self.seed + 21)
        layer[..., 3] = shape
        oval(layer, wide // 2, high // 8, self.height // 12, self.height // 8, rgb(205, 158, 130))
        return layer

    def _face(self, blink: bool, mouth: int) -> Picture:
        high, wide = self.height * 56 // 100, self.height * 42 // 100
        layer = blank(high, wide)
        skin, hair = rgb(222, 176, 148), (pick(self.seed, 31, 34, 100), 118, 136)
        oval(layer, wide // 2, high * 42 // 100, wide * 47 // 100, high * 41 // 100, hair)
        layer = self._textured(layer, 90, 3)
        oval(layer, wide // 2, high * 52 // 100, wide * 37 // 100, high * 42 // 100, skin)
        layer = self._textured(layer, 14, 10)
        for side in (-1, 1):
            x, y = wide // 2 + side * wide * 15 // 100, high * 44 // 100
            box(layer, x - wide // 14, y - high // 11, wide // 7, max(1, high // 60), hair)
            oval(layer, x, y, wide // 14, 1 if blink else high // 36, (215, 128, 128))
            oval(layer, x, y, wide // 34, 1 if blink else high // 40, (40, 132, 124))
        box(layer, wide // 2 - wide // 60, high * 48 // 100, max(1, wide // 30), high // 9, (130, 114, 150))
        oval(layer, wide // 2, high * 75 // 100, wide * 12 // 100, high * (2 + mouth * 2) // 150 + 1, (80, 118, 160))
        oval(layer, wide // 2, high * 75 // 100, wide * 9 // 100, high * mouth // 90, (35, 124, 138))
        return layer

    def _textured(self, layer: Picture, strength: int, cell: int) -> Picture:
        shape = layer[..., 3].copy()
        layer = roughen(layer, strength, cell, self.seed + strength)
        layer[..., 3] = shape
        return layer


class Desktop:
    """A screen: text that scrolls in bursts, a window that is dragged, a pointer; otherwise perfectly still."""

    grain = 0

    def __init__(self, width: int, height: int, seed: int) -> None:
        self.width, self.height, self.seed = width, height, seed
        self.scale = max(1, height // 400)
        self.wall = self._wall()
        self.editor = page(width * 55 // 100, 160, seed, scale=self.scale)
        self.mail = page(width * 40 // 100, 40, seed + 1, scale=self.scale, dark=False)
        self.photo = self._framed(
            Terrain(width * 3 // 10, height * 3 // 10, seed).land[: height * 3 // 10, : width * 3 // 10]
        )
        self.arrow = pointer(max(8, height // 24))

    def paint(self, canvas: Picture, t: int) -> int:
        cover(canvas, self.wall, 0, 0, SUBPIXEL)
        self._editor(canvas, t)
        self._typing(canvas, t)
        x, y = self._drag(t)
        stamp(canvas, self.photo, x * SUBPIXEL, y * SUBPIXEL)
        stamp(canvas, self.arrow, (x + self.width // 9) * SUBPIXEL, (y + 3) * SUBPIXEL)
        return 256

    def _editor(self, canvas: Picture, t: int) -> None:
        rows = self.height * 70 // 100
        cycle, phase = divmod(t, 48)
        moved = cycle * 16 + min(16, max(0, phase - 32))  # still for 32 frames, then 16 frames of scrolling
        top = moved * 5 * self.scale % (self.editor.shape[0] - rows)
        stamp(
            canvas, self.editor[top : top + rows], self.width * 3 // 100 * SUBPIXEL, self.height * 10 // 100 * SUBPIXEL
        )

    def _typing(self, canvas: Picture, t: int) -> None:
        """Letters appear one by one."""
        shown = self.mail[: self.height * 45 // 100].copy()
        pitch = 10 * self.scale
        line, column = divmod(90 + t // 2, max(1, shown.shape[1] // (6 * self.scale)))
        line = line % max(1, shown.shape[0] // pitch)
        shown[line * pitch :, column * 6 * self.scale :, :3] = (228, 128, 128)
        shown[(line + 1) * pitch :, :, :3] = (228, 128, 128)
        stamp(canvas, shown, self.width * 57 // 100 * SUBPIXEL, self.height * 6 // 100 * SUBPIXEL)

    def _drag(self, t: int) -> tuple[int, int]:
        """The window rests, moves for 24 frames in whole pixels, rests."""
        trip, phase = divmod(t + 20, 80)
        share = min(24, max(0, phase - 56))
        stops = [
            (
                pick(self.seed, 5 + 2 * k, 20, 60) * self.width // 100,
                pick(self.seed, 6 + 2 * k, 15, 60) * self.height // 100,
            )
            for k in (trip % 5, (trip + 1) % 5)
        ]
        (x0, y0), (x1, y1) = stops
        return x0 + (x1 - x0) * share // 24, y0 + (y1 - y0) * share // 24

    def _wall(self) -> Picture:
        layer = blank(self.height, self.width, hue(self.seed, 50, 90))
        layer[..., 0] = 70 + 60 * np.arange(self.height)[:, None] // self.height
        box(layer, 0, self.height - self.height // 16, self.width, self.height // 16, (40, 134, 124))
        write(layer, 8, self.height - self.height // 16 + 4, "START", (210, 128, 128), self.scale)
        return layer

    def _framed(self, content: Picture) -> Picture:
        bar = max(8, self.height // 26)
        layer = blank(content.shape[0] + bar + 2, content.shape[1] + 4, (70, 150, 116))
        layer[bar:-2, 2:-2] = content
        write(layer, 4, max(0, bar // 2 - 3), "MAP VIEW", (225, 128, 128), self.scale)
        return layer


class Cuts:
    """Shots of other scenes, 10 to 36 frames long, joined by hard cuts; one in six stands still."""

    grain = 4

    def __init__(self, width: int, height: int, seed: int) -> None:
        self.width, self.height, self.seed = width, height, seed

    def paint(self, canvas: Picture, t: int) -> int:
        shot = first = 0
        while t >= first + (length := pick(self.seed, 900 + shot, 10, 36)):
            first += length
            shot += 1
        kind = (pick(self.seed, 7, 0, 4) + shot) % len(SHOTS)
        take = pick(self.seed, 500 + shot, 0, 400)
        still = pick(self.seed, 700 + shot, 0, 5) == 0
        return _shot(kind, self.width, self.height, self.seed + shot // 10).paint(
            canvas, take if still else take + t - first
        )


# Not Water and Talk: they stand on the other side of the train/test split.
SHOTS = (Street, Terrain, Night, Desktop)


@lru_cache(maxsize=10)
def _shot(kind: int, width: int, height: int, seed: int) -> Scene:
    return SHOTS[kind](width, height, seed)
