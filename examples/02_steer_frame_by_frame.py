"""Steer an encoder while it runs: look at each packet, then choose the QP of the next frame.

In low delay a frame's packet is there as soon as the frame was sent, so a rule can react at once. This one keeps
frames near a number of bytes. `FrameQpBucket` in reelrl.encode is the grown-up form of it.

python examples/02_steer_frame_by_frame.py
"""

from reelrl.content import open_clip
from reelrl.encode import EncoderSession, EncoderSettings

clip = open_clip("generated:street?size=256x128&frames=30")
settings = EncoderSettings(backend="svtav1", picture_qp=True).for_clip(clip)
wanted_bytes, qp = 200, 44
sizes = []

with EncoderSession(settings) as session:
    for number, frame in enumerate(clip):
        session.send(frame, qp=qp)
        (packet,) = session.receive()
        sizes.append(packet.size)
        print(f"frame {number:2}   qp {packet.qp}   {packet.size:5} bytes   {packet.psnr[0]:.1f} dB")
        qp = min(max(qp + (2 if packet.size > wanted_bytes else -1), 20), 63)  # brake harder than you speed up
    session.flush()

print(f"mean       {sum(sizes[1:]) / len(sizes[1:]):.0f} bytes after the key frame; {wanted_bytes} were wanted")
