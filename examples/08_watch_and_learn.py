"""Watch a clip and learn from each frame once: an autoencoder beside two guesses that learn nothing.

Each frame is scored before it is learned from, so the score is of a picture that the model has not seen. After 150
frames it beats a picture that was shrunk to as many numbers, but not the frame before, which takes 33 times as many.

python examples/08_watch_and_learn.py      needs [train]; about half a minute
"""

import numpy as np
import torch
from torch.nn.functional import interpolate

from reelrl.content import open_clip
from reelrl.content.pictures import rgb
from reelrl.report.intervals import mean_interval, paired_interval
from reelrl.see import AutoEncoderSettings, StreamingAutoEncoder

SMALL = 39  # 3 x 39 x 39 numbers: a few more than the embeddings have


def decibels(mse):
    return -10 * np.log10(float(mse) + 1e-10)


torch.set_num_threads(1)
model = StreamingAutoEncoder(AutoEncoderSettings(background_frames=100))
learned_db, shrunk_db, previous_db = [], [], []
previous = None
for number, frame in enumerate(open_clip("generated:talk?size=224x224&frames=150&seed=5")):
    result = model.learn(torch.from_numpy(rgb(frame)).permute(2, 0, 1))
    learned_db.append(decibels(result.mse))

    picture = result.frame.reshape(1, 3, 224, 224)
    shrunk = interpolate(interpolate(picture, size=(SMALL, SMALL), mode="area"), size=(224, 224), mode="bicubic")
    shrunk_db.append(decibels((shrunk - picture).square().mean()))
    previous_db.append(decibels((picture if previous is None else picture - previous).square().mean()))
    previous = picture
    if number % 50 == 49:
        means = [np.mean(scores[-50:]) for scores in (learned_db, shrunk_db, previous_db)]
        print("frame {}   learned {:.1f} dB   shrunk {:.1f} dB   the frame before {:.1f} dB".format(number + 1, *means))

learned, shrunk, before = (np.array(scores[-50:]) for scores in (learned_db, shrunk_db, previous_db))
print(f"last 50 frames: learned {mean_interval(learned)} dB")
print(f"above shrunk {paired_interval(learned, shrunk)}, above the frame before {paired_interval(learned, before)}")
numbers = sum(part.numel() for part in result.embeddings)
print(f"embeddings: {numbers} numbers for a picture of {3 * 224 * 224}; shrunk: {3 * SMALL * SMALL}")
