"""`reel`: finds the command that was asked for and imports that one only.

A command is a module with `add_arguments(parser)` and `run(args)`, which returns its exit status or None for success.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from reelrl import __version__
from reelrl.errors import ReelError, missing_extra
from reelrl.file_trust import trusting_files
from reelrl.names import did_you_mean
from reelrl.runs.interrupts import Interrupted, sigterm_is_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Sequence

# Words as typed -> module, what it does. A command may have two words ("train abr") and share the first with others.
COMMANDS: dict[str, tuple[str, str]] = {
    "check doom": ("reelrl.cli.doom.check", "list what is wrong with the files of a Doom training"),
    "clips": ("reelrl.cli.clips", "list the clips there are to work with"),
    "collect doom": ("reelrl.cli.doom.collect", "record matches: what players see and where everybody is"),
    "compare atari": ("reelrl.cli.compare.atari", "race players that see in different ways, in the same games"),
    "compare autoencoder": ("reelrl.cli.compare.autoencoder", "race optimisers of the autoencoder on the same frames"),
    "compare doom": ("reelrl.cli.compare.doom", "train teams with and without the cross-ego term, and compare them"),
    "completion": ("reelrl.cli.completion", "print a script that lets a shell complete commands and options"),
    "demo": ("reelrl.cli.demo", "a tour in six parts: encode, stream, see and act, on one page to look at"),
    "doctor": ("reelrl.cli.doctor", "check the encoders, packages and folders that reelrl needs"),
    "encode": ("reelrl.cli.encode", "encode a video at a bitrate, a quality or a size, as a policy decides"),
    "evaluate abr": ("reelrl.cli.evaluate.abr", "compare bitrate controllers on traces they have not seen"),
    "evaluate atari": ("reelrl.cli.evaluate.atari", "let trained players play beside chance, in the same episodes"),
    "evaluate autoencoder": ("reelrl.cli.evaluate.autoencoder", "measure an autoencoder in true bytes beside codecs"),
    "evaluate doom": ("reelrl.cli.evaluate.doom", "compare trained teams with chance and a rule, in the same matches"),
    "evaluate embedding": ("reelrl.cli.evaluate.embedding", "ask linear probes what embeddings know of a game's state"),
    "evaluate frameqp": (
        "reelrl.cli.evaluate.frameqp",
        "compare bitrate control by frame with libaom's own",
    ),
    "evaluate live": ("reelrl.cli.evaluate.live", "compare coding frame by frame without look-ahead with cbr"),
    "evaluate location": ("reelrl.cli.evaluate.location", "compare nets that know where everybody is with baselines"),
    "evaluate minigop": ("reelrl.cli.evaluate.minigop", "compare bitrate control by mini-GOP with the encoder's own"),
    "evaluate superblock": ("reelrl.cli.evaluate.superblock", "compare superblock maps by BD-rate on clips unseen"),
    "evaluate target": ("reelrl.cli.evaluate.target", "judge quality targets on sources unseen, beside two searchers"),
    "evaluate views": ("reelrl.cli.evaluate.views", "ask frozen encoders of views who is where, by share of labels"),
    "export abr": ("reelrl.cli.export.abr", "write a learned bitrate policy for players: an ES module and ONNX"),
    "fit abr": ("reelrl.cli.fit.abr", "fit the net of a learned baseline of bitrate control"),
    "fit frameqp": ("reelrl.cli.fit.frameqp", "search how libaom's frames should differ under a bitrate"),
    "fit frameqp-sac": ("reelrl.cli.fit.frameqp_sac", "fit an agent that steers the quantiser of every frame, by SAC"),
    "fit live": ("reelrl.cli.fit.live", "fit the predictor of a frame's bits that live coding decides by"),
    "fit minigop": ("reelrl.cli.fit.minigop", "fit a rule that imitates the direct search of mini-GOP QPs"),
    "fit superblock": ("reelrl.cli.fit.superblock", "fit a map policy of a dozen weights to a quality metric"),
    "init doom": ("reelrl.cli.doom.init", "write the files of a Doom training, to edit"),
    "ladder": ("reelrl.cli.ladder", "encode a clip at several rates for streaming, with sizes and quality"),
    "play": ("reelrl.cli.play", "watch a ladder in a browser over a recorded network, a controller deciding"),
    "pretrain views": ("reelrl.cli.pretrain.views", "train an encoder of players' views without labels"),
    "push": ("reelrl.cli.push", "share what a training learned on the Hugging Face Hub"),
    "report": ("reelrl.cli.report", "make one page about runs of any kind, side by side"),
    "runs": ("reelrl.cli.runs.overview", "list runs: what was trained, how far, how well, how large"),
    "runs clean": ("reelrl.cli.runs.clean", "remove what trainings left that nobody needs"),
    "search frameqp": ("reelrl.cli.fit.search_frameqp", "search what frames' quantisers can win on a clip at most"),
    "search superblock": ("reelrl.cli.fit.search_superblock", "search what superblock maps can win on a clip at most"),
    "sweep": ("reelrl.cli.sweep", "search the settings of a training, one trial after or beside another"),
    "traces": ("reelrl.cli.traces", "look at network traces, make new ones, convert them"),
    "train abr": ("reelrl.cli.train.abr", "train a bitrate controller for streaming"),
    "train atari": ("reelrl.cli.train.atari", "train a player that learns while it plays, from what it sees"),
    "train autoencoder": ("reelrl.cli.train.autoencoder", "train an autoencoder that learns while it watches"),
    "train doom": ("reelrl.cli.train.doom", "train a team of players in Doom from what each of them sees"),
    "train frame-reader": ("reelrl.cli.train.frame_reader", "train an encoder on single frames of recorded matches"),
    "train location": ("reelrl.cli.train.location", "train a net that knows where everybody is, from what players see"),
    "train minigop": (
        "reelrl.cli.train.minigop",
        "train an agent that steers QP by mini-GOP under a bitrate",
    ),
    "train superblock": ("reelrl.cli.train.superblock", "train an agent that places QP offsets inside frames"),
    "train target": ("reelrl.cli.train.target", "train the model that predicts which CRF gives a quality"),
    "watch atari": ("reelrl.cli.watch_atari", "watch a trained player play, as a film"),
    "watch doom": ("reelrl.cli.doom.watch", "watch a trained team play, as a film of all views"),
}

# What commands and options were called in version 0.1. They work for one version more, and say what to type instead.
ALIASES: dict[str, str] = {
    "train eyes": "train frame-reader",
    "train location --eyes": "train location --frame-reader",
    "train doom --frames": "train doom --steps",
    "compare doom --frames": "compare doom --steps",
}

DONE, FAILED, WRONG_USAGE, INTERRUPTED = 0, 1, 2, 130


class CommandParser(argparse.ArgumentParser):
    """Says what is wrong in one line; all options, which argparse would print before it, are a `--help` away."""

    def error(self, message: str) -> NoReturn:
        unknown = message.removeprefix("unrecognized arguments: ").partition(" ")[0].partition("=")[0]
        near = get_close_matches(unknown[:40], self._option_string_actions, 1) if unknown.startswith("--") else []
        meant = f"; did you mean {near[0]}" if near else ""
        self.exit(WRONG_USAGE, f"error  {message}{meant}; {self.prog} --help lists the options\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with sigterm_is_ctrl_c():
            status = _dispatch(arguments)
        sys.stdout.flush()  # a reader that went away is noticed here, not when Python ends
        return status
    except ReelError as error:
        from reelrl.storage.files import remove_empty_folders

        remove_empty_folders()
        # Notes say where it happened: which task of many.
        return _complain("\n".join([f"error  {error}", *getattr(error, "__notes__", ())]), FAILED)
    except ModuleNotFoundError as error:
        extra = missing_extra(error)
        if extra is None:
            raise
        return _complain(f"error  {extra}", FAILED)
    except Interrupted:  # the command has said what it saved
        return _interrupted()
    except KeyboardInterrupt:
        _complain("stopped  interrupted by Ctrl+C or SIGTERM", INTERRUPTED)
        return _interrupted()
    except BrokenPipeError:
        # The reader went away (`reel clips | head`). Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def _interrupted() -> int:
    """The status of an interrupted command, which Python must not replace.

    Where Ctrl+C falls into the execution of a text (a dataclass is made from one while a module is imported), Python
    remembers it, although it was caught, and at the end kills itself by SIGINT. It forgets when it executes another.
    """
    exec("")
    return INTERRUPTED


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["--version"]:
        print(f"reel {__version__}")
        return DONE
    arguments = without_aliases(arguments)
    if _names_a_run(arguments):
        from reelrl.cli.evaluate import words_for_runs

        arguments = words_for_runs(arguments)
    command = _find(arguments)
    if command is None:
        return _without_command(arguments)
    from reelrl.cli import options, output
    from reelrl.parallel.place import working_at

    module = importlib.import_module(COMMANDS[command][0])
    parser = CommandParser(
        prog=f"reel {command}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # `--see` would be `--seed` today and an error when a `--seek` is added
    )
    module.add_arguments(parser)
    parser.add_argument(
        "--trust", action="store_true", help="let files name code and programs of others; for files that you wrote"
    )
    try:
        parsed = parser.parse_args(with_dashes(arguments[len(command.split()) :]))
    except SystemExit as stop:  # argparse exits by itself; callers of `main` want a number
        return int(stop.code or 0)
    with (
        trusting_files(parsed.trust),
        working_at(options.work_place(parsed, parser)),
        output.json_alone(getattr(parsed, "json", False)),
    ):
        status = module.run(parsed)
    sys.stdout.flush()
    return DONE if status is None else int(status)


def without_aliases(arguments: list[str]) -> list[str]:
    """The arguments with the names of today; each former one is reported on stderr."""
    for former, today in ALIASES.items():
        *before, old = former.split()
        if arguments[: len(before)] != before:
            continue
        # A command's last word stands behind the others, an option anywhere, perhaps as --option=value.
        end = len(arguments) if old.startswith("--") else len(before) + 1
        for place, word in enumerate(arguments[:end]):
            name, equals, value = word.partition("=")
            if place >= len(before) and name == old:
                from reelrl.cli import output

                output.renamed(f"`reel {former}`", f"`reel {today}`")
                arguments = [*arguments[:place], today.split()[-1] + equals + value, *arguments[place + 1 :]]
    return arguments


def _find(arguments: list[str]) -> str | None:
    """The longest command that the arguments begin with: "train abr" before "train"."""
    for words in (2, 1):
        command = " ".join(arguments[:words])
        if len(arguments) >= words and command in COMMANDS:
            return command
    return None


def _names_a_run(arguments: list[str]) -> bool:
    """Whether this is `reel evaluate RUN`: what follows is no command, and a path or something that is there."""
    if arguments[:1] != ["evaluate"] or _find(arguments) or len(arguments) < 2 or arguments[1].startswith("-"):
        return False
    word = arguments[1]
    # A plain word that is not there is taken for a mistyped command ("evaluate abrr"), and answered with the nearest.
    return word.isdecimal() or "/" in word or os.sep in word or Path(word).exists()


def _without_command(arguments: list[str]) -> int:
    words = [word for word in arguments if not word.startswith("-")]
    asked_for_help = bool({"-h", "--help"} & set(arguments))
    group = words[0] + " " if words else ""
    members = [name for name in COMMANDS if name.startswith(group)]
    if not members:
        known = {name.split()[0] for name in COMMANDS}
        return _complain(f"error  no command {words[0]!r}{did_you_mean(words[0], known)}", WRONG_USAGE)
    if len(words) > 1:
        known = {name.removeprefix(group) for name in members}
        return _complain(f"error  no command {group + words[1]!r}{did_you_mean(words[1], known)}", WRONG_USAGE)
    print(_overview(members, group), file=sys.stdout if asked_for_help else sys.stderr)
    return DONE if asked_for_help else WRONG_USAGE


def _overview(members: list[str], group: str) -> str:
    width = max(len(name) for name in members)
    lines = [f"usage: reel {group}COMMAND [options]", ""]
    lines += [f"  {name:<{width}}  {COMMANDS[name][1]}" for name in members]
    lines += ["", "  evaluate RUN  evaluates a run of any kind by the command for it"] if group == "evaluate " else []
    return "\n".join([*lines, "", "`reel COMMAND --help` shows a command's options; `reel --version` the version"])


def with_dashes(arguments: Sequence[str]) -> list[str]:
    """The arguments with options spelt with dashes: `--batch_size=4` is `--batch-size=4`. Values stay as they are.

    A word with a bar is the value of the option before it, though it may begin with dashes: "--input|in_1.yuv".
    """
    fixed: list[str] = []
    option = ""
    for index, word in enumerate(arguments):
        if word == "--":
            return [*fixed, *arguments[index:]]
        if option and word.startswith("--") and "|" in word.partition("=")[0]:
            if fixed[-1] == option:
                fixed.pop()
            fixed.append(f"{option}={word}")
            continue
        name, equals, value = word.partition("=")
        fixed.append(name.replace("_", "-") + equals + value if word.startswith("--") else word)
        option = fixed[-1] if word.startswith("--") and not equals else ""
    return fixed


def _complain(message: str, status: int) -> int:
    # Ctrl+C leaves the cursor behind a half-drawn progress bar.
    start = "\n" if status == INTERRUPTED and sys.stderr.isatty() else ""
    print(start + message.replace("\n", "\n       "), file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
