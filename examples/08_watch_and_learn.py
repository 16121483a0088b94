"""Watch a clip and learn from each frame once: an autoencoder beside a picture that was shrunk to as many numbers.

Each frame is scored before it is learned from, so the score is of a picture that the model has not seen.

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
learned_db, shrunk_db = [], []
for number, frame in enumerate(open_clip("generated:talk?size=224x224&frames=150&seed=5")):
    result = model.learn(torch.from_numpy(rgb(frame)).permute(2, 0, 1))
    learned_db.append(decibels(result.mse))

    picture = result.frame.reshape(1, 3, 224, 224)
    shrunk = interpolate(interpolate(picture, size=(SMALL, SMALL), mode="area"), size=(224, 224), mode="bicubic")
    shrunk_db.append(decibels((shrunk - picture).square().mean()))
    if number % 50 == 49:
        means = np.mean(learned_db[-50:]), np.mean(shrunk_db[-50:])
        print(f"frame {number + 1:3}   learned {means[0]:.1f} dB   shrunk {means[1]:.1f} dB")

learned, shrunk = np.array(learned_db[-50:]), np.array(shrunk_db[-50:])
print(f"last 50 frames: learned {mean_interval(learned)} dB, that is {paired_interval(learned, shrunk)} above shrunk")
numbers = sum(part.numel() for part in result.embeddings)
print(f"embeddings: {numbers} numbers for a picture of {3 * 224 * 224}; shrunk: {3 * SMALL * SMALL}")
