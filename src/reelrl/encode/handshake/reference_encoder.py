"""What `reel-encoder` does with a clip: a first pass, an encode of its own, or one that a trainer steers."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from reelrl.encode.codecs import whole_clip as coding
from reelrl.encode.codecs.backends import capabilities
from reelrl.encode.codecs.whole_clip import Encoded
from reelrl.encode.handshake.encoder_side import AskTrainer, HandshakeEncoder
from reelrl.encode.handshake.pass_log import PassLog
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.preparation import open_source
from reelrl.encode.minigop.source.probe import store_probe
from reelrl.encode.minigop.source.starting_qp import starting_qp
from reelrl.storage.files import write_atomic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from reelrl.encode.codecs.packet import Packet
    from reelrl.encode.file.job import EncodeJob

CSV_COLUMNS = "frame,type,layer,qp,bits,psnr_y,psnr_cb,psnr_cr"


@dataclass(frozen=True)
class Coded:
    """A stream, the log of its pass, and how it came about, in a few words."""

    encoded: Encoded
    log: PassLog
    how: str

    def save_csv(self, path: str | Path) -> None:
        """A line per frame."""
        write_atomic(path, "\n".join([CSV_COLUMNS, *map(_csv_row, self.encoded.packets)]) + "\n")


def first_pass(job: EncodeJob) -> Coded:
    """The encoder alone at a fixed quality near the bitrate; with one, also its own statistics for two-pass vbr."""
    qp = job.start_qp
    if qp is None:
        at = job.settings.for_clip(job.clip)
        qp = at.qp if job.kbps is None else starting_qp(job.clip, at, job.kbps)
    own = job.own_rate_control
    statistics = coding.first_pass(job.clip, own) if own.rate_control == "vbr" else b""
    started, settings = time.process_time(), replace(job.settings, qp=qp)
    encoded = coding.encode_clip(job.clip, settings)
    store_probe(job.clip, settings, encoded.packets, time.process_time() - started)
    return Coded(encoded, PassLog.of(job.clip, qp, encoded.packets, statistics), f"first pass at QP {qp}")


def alone(job: EncodeJob, log: PassLog | None, *, two_passes: bool) -> Coded:
    """The encoder's own rate control: crf or cqp, vbr in one pass or two, cbr."""
    settings = job.own_rate_control
    statistics = None
    if two_passes and settings.rate_control == "vbr":
        statistics = (log.statistics_bytes if log else b"") or coding.first_pass(job.clip, settings)
    encoded = job.alone(statistics)
    how = f"{settings.rate_control} alone, {'two passes' if statistics else 'one pass'}"
    return Coded(encoded, PassLog.of(job.clip, settings.qp, encoded.packets), how)


def by_trainer(
    job: EncodeJob, folder: Path, log: PassLog | None, *, deadline_s: float, say: Callable[[str], None]
) -> Coded:
    """Every mini-GOP by the QP that a trainer in the folder decides, or by the encoder's own where none does."""
    with HandshakeEncoder(folder, deadline_s=deadline_s, say=say) as trainer:
        start_qp = log.qp if log is not None else job.start_qp
        source = open_source(
            job.clip, job.settings, kbps=job.kbps, goal="cbr" if job.constant else "vbr", start_qp=start_qp
        )
        asker = AskTrainer(trainer, encoder=f"reel-encoder, {capabilities(job.settings.backend).version}")
        run = run_controller(source, asker)
        asker.tell(run.feedback)
    encoded = Encoded(job.clip, source.settings, run.packets)
    own = f", {trainer.fallbacks} of them left to the encoder" if trainer.fallbacks else ""
    how = f"{len(run.deltas)} mini-GOPs asked for{own}"
    return Coded(encoded, PassLog.of(job.clip, source.settings.qp, run.packets), how)


def _csv_row(packet: Packet) -> str:
    kind = packet.frame_type.name.lower()
    psnr = ",".join(f"{value:.4f}" for value in packet.psnr)
    return f"{packet.number},{kind},{packet.layer},{packet.qp},{8 * packet.size},{psnr}"
