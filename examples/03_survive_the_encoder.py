"""Keep an encoder in a process of its own, so that its crash is an error of yours and not the end of you.

python examples/03_survive_the_encoder.py
"""

import os
import signal

from reelrl.content import open_clip
from reelrl.encode import EncoderSettings, WorkerSession
from reelrl.errors import EncoderError


def main():
    clip = open_clip("generated:talk?size=128x96&frames=3")
    with WorkerSession(EncoderSettings().for_clip(clip)) as session:
        try:
            for number, frame in enumerate(clip):
                session.send(frame)
                print(f"frame {number}   {session.receive()[0].size} bytes")
                if number == 1:
                    os.kill(session.pid, signal.SIGKILL)  # what a crash inside the library looks like from here
        except EncoderError as error:
            print(f"caught  {error}")


if __name__ == "__main__":
    main()
