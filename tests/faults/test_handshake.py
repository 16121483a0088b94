"""Encoder and trainer in two real processes, and everything that may go wrong between them."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from reelrl.encode.handshake.encoder_side import HandshakeEncoder
from reelrl.encode.handshake.folder import TRAINER, HandshakeFolder
from reelrl.encode.handshake.trainer_side import HandshakeSource
from reelrl.encode.minigop.controllers.rules import CrfReplay
from reelrl.encode.minigop.run import run_controller
from reelrl.encode.minigop.source.in_process import RANDOM_ACCESS
from reelrl.encode.minigop.source.preparation import open_source
from reelrl.errors import ConfigError, ContentError, EncoderError, EncoderTimeout, HandshakeError, RunError
from tests.encode.handshake.handshakes import (
    CLIP,
    KBPS,
    MINIGOPS,
    START_QP,
    encoder_command,
    is_alive,
    packets_of,
    python,
    started,
    stream_by,
)
from tests.encode.handshake.test_messages import FEEDBACK, REQUEST
from tests.waiting import HANG_S, until

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from reelrl.encode.minigop.protocols import MiniGopFeedback, MiniGopRequest, MiniGopSource

pytestmark = pytest.mark.slow

# A user's own encoder, in the plainest way: no rename, no session, no library of ours.
PLAIN = """
import json, os, sys, time
folder = os.environ["RL_DIR"]
def write(name, text, half=0):
    with open(os.path.join(folder, name), "w") as file:
        if half:
            file.write(text[:half]); file.flush(); time.sleep(0.02)
            text = text[half:]
        file.write(text)
def read(name):
    while True:
        try:
            return json.load(open(os.path.join(folder, name)))["qp"]
        except (OSError, ValueError):
            time.sleep(0.001)
def code(mg, count, half=0, **more):
    request = dict(mg=mg, gop=0, frames=8, base_qp=40, layer_qps=[40] * 8, bits_left=9000 - 1000 * mg,
                   frames_left=8 * (count - mg), features={"intra": 1.5}, **more)
    write(f"mg{mg:04d}_rq.json", json.dumps(request), half)
    qp = read(f"mg{mg:04d}_qp.json")
    end = int(mg + 1 == count)
    feedback = dict(mg=mg, qp=qp, bits=1000 + qp, psnr_y=38.0, gop_end=end, frames=8)
    write(f"mg{mg:04d}_fb.json", json.dumps(feedback), half)
"""


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a program as a user would in another terminal; none outlives the test."""
    programs: list[subprocess.Popen[str]] = []

    def start_one(command: list[str], rl_dir: Path, **environment: str) -> subprocess.Popen[str]:
        programs.append(started(command, rl_dir, **environment))
        return programs[-1]

    yield start_one
    for program in programs:
        program.kill()
        program.communicate()


def play(source: HandshakeSource, delta: float = 0.0) -> tuple[MiniGopFeedback, ...]:
    return run_controller(source, CrfReplay(delta)).feedback


def situations(source: MiniGopSource, delta: float) -> list[tuple[MiniGopRequest, list[MiniGopFeedback]]]:
    """What the source told before each decision."""
    seen: list[tuple[MiniGopRequest, list[MiniGopFeedback]]] = []
    run_controller(source, CrfReplay(delta), on_decision=lambda s, _: seen.append((s.request, list(s.history))))
    return seen


def wait_until_gone(pid: int) -> None:
    until(lambda: not is_alive(pid), f"process {pid} did not end")


def pid_of(source: HandshakeSource) -> int:
    assert source._process is not None
    return source._process.pid


# -- the way it should be ----------------------------------------------------------------------------------------


def test_a_trainer_steers_a_real_encoder(tmp_path: Path) -> None:
    source = HandshakeSource(tmp_path / "rl", encoder_command(tmp_path))
    pid = pid_of(source)
    episode, feedback = source.episode, play(source, 4.0)
    assert (episode.width, episode.frames, episode.kbps, episode.goal) == (64, 20, 60.0, "vbr")
    assert [told.qp for told in feedback] == [START_QP + 4] * MINIGOPS
    assert [told.gop_end for told in feedback] == [False] * (MINIGOPS - 1) + [True]
    packets = packets_of(tmp_path / "out.ivf")
    assert packets == stream_by([4] * MINIGOPS)
    assert sum(told.bits for told in feedback) == 8 * sum(map(len, packets))
    assert not is_alive(pid)


def test_a_trainer_is_told_as_much_as_one_in_the_encoders_own_process(tmp_path: Path) -> None:
    settings = replace(RANDOM_ACCESS, hierarchical_levels=2, preset=12, keyint=161)
    here = open_source(CLIP, settings, kbps=KBPS, start_qp=START_QP)
    there = HandshakeSource(tmp_path / "rl", encoder_command(tmp_path, "--structure", "random_access"))
    assert replace(there.episode, clip=CLIP.name) == here.episode
    assert situations(there, 1.0) == situations(here, 1.0)
    assert here.episode.feedback_lag == 3
    assert packets_of(tmp_path / "out.ivf") == [packet.data for packet in here.packets]


def test_a_plain_encoder_of_somebody_else_is_steered(tmp_path: Path) -> None:
    command = python(PLAIN + "for mg in range(4): code(mg, 4)")
    feedback = play(HandshakeSource(tmp_path, command, width=64, height=64, fps=25), -3.2)
    assert [(told.mg, told.qp, told.bits, told.delta) for told in feedback] == [(mg, 37, 1037, -3.2) for mg in range(4)]


# -- files -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("half", [1, 20, 100])
def test_half_written_files_are_waited_for(tmp_path: Path, half: int) -> None:
    command = python(PLAIN + f"for mg in range(3): code(mg, 3, half={half})")
    assert [told.qp for told in play(HandshakeSource(tmp_path, command))] == [40, 40, 40]


def test_a_file_that_stays_half_written_is_refused_and_the_encoder_ended(tmp_path: Path) -> None:
    command = python(PLAIN + "write('mg0000_rq.json', '{\"mg\": 0, '); print(os.getpid(), flush=True); time.sleep(600)")
    with pytest.raises(HandshakeError, match=r"mg0000_rq\.json is no whole JSON"):
        HandshakeSource(tmp_path, command)


def test_a_request_of_nonsense_is_refused_with_the_reason(tmp_path: Path) -> None:
    command = python(PLAIN + "write('mg0000_rq.json', '{\"mg\": 0}'); time.sleep(600)")
    with pytest.raises(HandshakeError, match=r"mg0000_rq\.json lacks gop, frames, base_qp"):
        HandshakeSource(tmp_path, command)


def test_stale_files_change_nothing(tmp_path: Path) -> None:
    rl_dir = tmp_path / "rl"
    rl_dir.mkdir()
    for mg in range(MINIGOPS + 3):
        (rl_dir / f"mg{mg:04d}_rq.json").write_text('{"stale": ')
        (rl_dir / f"mg{mg:04d}_qp.json").write_text('{"qp": 11}')
        (rl_dir / f"mg{mg:04d}_fb.json").write_text("{}")
    play(HandshakeSource(rl_dir, encoder_command(tmp_path)), 2.0)
    assert packets_of(tmp_path / "out.ivf") == stream_by([2] * MINIGOPS)
    assert len(list(rl_dir.glob("mg*.json"))) == 3 * MINIGOPS


def test_an_encoder_on_its_own_takes_no_stale_answer(tmp_path: Path, start: Start) -> None:
    rl_dir = tmp_path / "rl"
    rl_dir.mkdir()
    for mg in range(MINIGOPS):
        (rl_dir / f"mg{mg:04d}_qp.json").write_text('{"qp": 11, "session": "of yesterday"}')
    encoder = start(encoder_command(tmp_path, "--rl-deadline", "0.1"), rl_dir)
    _, errors = encoder.communicate(timeout=HANG_S)
    assert encoder.returncode == 0, errors
    assert packets_of(tmp_path / "out.ivf") == stream_by([0] * MINIGOPS)


# -- answers -----------------------------------------------------------------------------------------------------


def test_an_answer_that_never_comes_leaves_the_encoder_its_own_qp(tmp_path: Path, start: Start) -> None:
    rl_dir = tmp_path / "rl"
    rl_dir.mkdir()
    lock = HandshakeFolder(rl_dir).lock(TRAINER)  # a trainer that is there, and silent
    encoder = start(encoder_command(tmp_path, "--rl-deadline", "0.1"), rl_dir)
    printed, errors = encoder.communicate(timeout=HANG_S)
    lock.release()
    assert encoder.returncode == 0
    said = [line for line in errors.splitlines() if line.startswith("note")]
    assert len(said) == MINIGOPS
    assert said[0] == "note   mini-GOP 0 takes the encoder's own QP 40: the trainer did not answer within 0.1 s"
    assert f"{MINIGOPS} of them left to the encoder" in printed
    assert packets_of(tmp_path / "out.ivf") == stream_by([0] * MINIGOPS)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ('{"qp": 99}', "qp = 99; use 1 to 63"),
        ("[40]", "write one JSON object"),
        ('{"qp": 41, "session": "other"}', "for session other"),
        ('{"qp": 41, "mg": 8}', "speaks of mini-GOP 8"),
    ],
)
def test_a_wrong_answer_is_told_and_not_used(tmp_path: Path, answer: str, reason: str, start: Start) -> None:
    said: list[str] = []
    with HandshakeEncoder(tmp_path, deadline_s=HANG_S, say=said.append) as trainer:
        answerer = start(python(ANSWERER, tmp_path, answer), tmp_path)
        assert trainer.ask(REQUEST) == REQUEST.base_qp
        answerer.communicate(timeout=HANG_S)
    assert len(said) == 1
    assert reason in said[0]


ANSWERER = """
import os, sys, time
folder, answer = sys.argv[1:]
while not os.path.exists(folder + "/mg0003_rq.json"):
    time.sleep(0.001)
with open(folder + "/new", "w") as file:
    file.write(answer)
os.rename(folder + "/new", folder + "/mg0003_qp.json")
"""


def test_without_a_trainer_one_deadline_is_enough_for_the_whole_stream(tmp_path: Path) -> None:
    with HandshakeEncoder(tmp_path, deadline_s=1) as trainer:
        begin = time.monotonic()
        for _ in range(40):
            trainer.ask(REQUEST)
        assert 1 <= time.monotonic() - begin < 40
    assert trainer.fallbacks == 40


# -- encoders that end -------------------------------------------------------------------------------------------


def test_a_killed_encoder_is_noticed_and_named(tmp_path: Path) -> None:
    with HandshakeSource(tmp_path / "rl", encoder_command(tmp_path)) as source:
        for _ in range(2):
            assert source.request() is not None
            source.reply(0.0)
        assert source.request() is not None
        os.kill(pid_of(source), signal.SIGKILL)
        source.reply(0.0)
        with pytest.raises(EncoderError, match=r"mg0003_rq\.json is missing; .* ended by SIGKILL"):
            source.request()


def test_the_status_and_last_words_of_a_failed_encoder_reach_the_user(tmp_path: Path) -> None:
    command = python(PLAIN + "code(0, 3); print('no memory for frame 9'); sys.exit(3)")
    with pytest.raises(EncoderError, match=r"ended with status 3\nencoder: no memory for frame 9"):
        play(HandshakeSource(tmp_path, command))


def test_an_encoder_that_fails_after_its_last_feedback_has_failed(tmp_path: Path) -> None:
    command = python(PLAIN + "code(0, 1); sys.exit('cannot write out.ivf')")
    with pytest.raises(EncoderError, match=r"did not end well; .* status 1\nencoder: cannot write out\.ivf"):
        play(HandshakeSource(tmp_path, command))


def test_an_encoder_that_says_nothing_is_ended_at_the_deadline(tmp_path: Path) -> None:
    note = tmp_path / "pids"
    # It ignores the polite signal, and has a helper of its own.
    code = """
    import os, signal, subprocess, sys, time
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    helper = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    open(sys.argv[1] + ".new", "w").write(f"{os.getpid()} {helper.pid}")
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    time.sleep(600)
    """
    for silence_s in (1, 4, 16, 64):  # it must have been long enough there to have a helper
        with pytest.raises(EncoderTimeout, match=rf"\.json is missing; .* was silent for {silence_s} s and is ended"):
            HandshakeSource(tmp_path / "rl", python(code, note), silence_s=silence_s)
        if note.exists():
            break
    for pid in map(int, note.read_text().split()):
        wait_until_gone(pid)


def test_an_encoder_that_ends_early_but_well_is_taken_at_its_word(tmp_path: Path) -> None:
    command = python(PLAIN + "code(0, 9); code(1, 9)")
    assert len(play(HandshakeSource(tmp_path, command))) == 2


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no program 'no-such-encoder' to run as encoder"):
        HandshakeSource(tmp_path, ["no-such-encoder", "--rl-dir", "{rl_dir}"])


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    command = python(PLAIN + "print(sys.argv[1:]); sys.exit(1)", "$HOME; touch x", "{rl_dir}/a b")
    with pytest.raises(EncoderError) as failure:
        HandshakeSource(tmp_path, command)
    assert failure.value.last_words == str(["$HOME; touch x", f"{tmp_path}/a b"])


def test_an_encoder_started_again_comes_back_to_where_it_was(tmp_path: Path, start: Start) -> None:
    rl_dir = tmp_path / "rl"
    rl_dir.mkdir()
    first = start(encoder_command(tmp_path), rl_dir, RL_SESSION="one")
    source = HandshakeSource(rl_dir)
    for delta in (3.0, -3.0):
        assert source.request() is not None
        source.reply(delta)
    assert source.request() is not None
    first.kill()
    first.communicate()
    second = start(encoder_command(tmp_path), rl_dir, RL_SESSION="one")
    feedback = play(source, 1.0)
    _, errors = second.communicate(timeout=HANG_S)
    assert second.returncode == 0, errors
    assert [told.delta for told in feedback] == [3.0, -3.0, 1.0, 1.0, 1.0]
    assert packets_of(tmp_path / "out.ivf") == stream_by([3, -3, 1, 1, 1])


# -- trainers that end -------------------------------------------------------------------------------------------

TRAINER_PROGRAM = """
import sys
from reelrl.encode.handshake.trainer_side import HandshakeSource
folder, *command = sys.argv[1:]
source = HandshakeSource(folder, command or None)
for _ in range(2):
    source.request()
    source.reply(5.0)
print(source._process.pid if command else "attached", flush=True)
sys.stdin.read()
"""


def test_the_encoder_of_a_killed_trainer_ends_and_a_new_trainer_begins_anew(tmp_path: Path, start: Start) -> None:
    rl_dir, command = tmp_path / "rl", encoder_command(tmp_path)
    trainer = start(python(TRAINER_PROGRAM, rl_dir, *command), rl_dir)
    assert trainer.stdout is not None
    encoder_pid = int(trainer.stdout.readline())
    assert is_alive(encoder_pid)
    trainer.kill()
    trainer.communicate()
    wait_until_gone(encoder_pid)
    assert len(play(HandshakeSource(rl_dir, command), -2.0)) == MINIGOPS
    assert packets_of(tmp_path / "out.ivf") == stream_by([-2] * MINIGOPS)


def test_a_new_trainer_takes_on_an_encoder_that_waits(tmp_path: Path, start: Start) -> None:
    rl_dir = tmp_path / "rl"
    rl_dir.mkdir()
    encoder = start(encoder_command(tmp_path), rl_dir)
    trainer = start(python(TRAINER_PROGRAM, rl_dir), rl_dir)
    assert trainer.stdout is not None
    assert trainer.stdout.readline() == "attached\n"
    trainer.kill()
    trainer.communicate()
    told = play(HandshakeSource(rl_dir), -1.0)
    _, errors = encoder.communicate(timeout=HANG_S)
    assert encoder.returncode == 0, errors
    assert [feedback.delta for feedback in told] == [5.0, 5.0, -1.0, -1.0, -1.0]
    assert packets_of(tmp_path / "out.ivf") == stream_by([5, 5, -1, -1, -1])


def test_a_new_trainer_does_not_answer_what_the_encoder_settled_by_itself(tmp_path: Path) -> None:
    with HandshakeEncoder(tmp_path, deadline_s=0) as encoder:
        first = replace(REQUEST, mg=0, first_frame=0)
        assert encoder.ask(first) == first.base_qp
        encoder.tell(replace(FEEDBACK, mg=0, qp=first.base_qp, gop_end=False))
        encoder.ask(replace(REQUEST, mg=1, first_frame=16))
        with HandshakeSource(tmp_path) as source:
            request = source.request()
            assert request is not None
            assert (request.mg, [told.delta for told in source.feedback()]) == (1, [0])


# -- folders -----------------------------------------------------------------------------------------------------


def test_a_folder_shared_by_mistake_is_refused_with_the_holder_named(tmp_path: Path, start: Start) -> None:
    rl_dir, other = tmp_path / "rl", tmp_path / "other"
    other.mkdir()
    with HandshakeSource(rl_dir, encoder_command(tmp_path)) as source:
        with pytest.raises(RunError, match=rf"{os.getpid()}\); give each encode a folder of its own \(--rl-dir\)"):
            HandshakeSource(rl_dir, encoder_command(other))
        second = start(encoder_command(other), rl_dir)
        _, errors = second.communicate(timeout=HANG_S)
        assert second.returncode == 1
        assert f"is being written by process {pid_of(source)}; give each" in errors
        assert len(play(source)) == MINIGOPS
    assert packets_of(tmp_path / "out.ivf") == stream_by([0] * MINIGOPS)


def test_files_of_two_encoders_in_one_folder_are_told_apart(tmp_path: Path) -> None:
    command = python(PLAIN + "code(0, 3, session='mine'); code(1, 3, session='yours')")
    with pytest.raises(HandshakeError, match=r"mg0001_rq\.json is of session yours, this encode is mine"):
        play(HandshakeSource(tmp_path, command))


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file:
        for size in (65536, 512, 1):
            try:
                while True:
                    file.write(b"x" * size)
            except OSError as error:
                assert error.errno == errno.ENOSPC  # noqa: PT017


def test_on_a_full_disk_the_encoder_goes_on_alone(tmp_path: Path, small_disk: Path, start: Start) -> None:
    fill(small_disk)
    encoder = start(encoder_command(tmp_path), small_disk)
    printed, errors = encoder.communicate(timeout=HANG_S)
    assert encoder.returncode == 0, errors
    assert "the disk is full" in errors
    assert f"{MINIGOPS} of them left to the encoder" in printed
    assert packets_of(tmp_path / "out.ivf") == stream_by([0] * MINIGOPS)


def test_on_a_full_disk_the_trainer_says_so_and_ends_its_encoder(tmp_path: Path, small_disk: Path) -> None:
    with HandshakeSource(small_disk, encoder_command(tmp_path)) as source:
        pid = pid_of(source)
        assert source.request() is not None
        fill(small_disk)
        with pytest.raises(ContentError, match=r"cannot write .*mg0000_qp\.json: the disk is full"):
            source.reply(0.0)
    assert not is_alive(pid)


def test_an_interrupt_ends_the_encoder_with_the_trainer(tmp_path: Path, start: Start) -> None:
    rl_dir = tmp_path / "rl"
    trainer = start(python(TRAINER_PROGRAM, rl_dir, *encoder_command(tmp_path)), rl_dir)
    assert trainer.stdout is not None
    encoder_pid = int(trainer.stdout.readline())
    trainer.send_signal(signal.SIGINT)
    trainer.communicate(timeout=HANG_S)
    wait_until_gone(encoder_pid)
