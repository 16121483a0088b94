"""Print a script that lets a shell complete commands and options.

source <(reel completion bash)                     for this shell; put the line into ~/.bashrc to keep it
source <(reel completion zsh)                      likewise, into ~/.zshrc
reel completion fish > ~/.config/fish/completions/reel.fish

What it offers is that of the version which printed it.
"""

from __future__ import annotations

import argparse
import importlib
from typing import NamedTuple

SHELLS = ("bash", "zsh", "fish")


class _Option(NamedTuple):
    name: str
    choices: tuple[str, ...]
    help: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which shell reads it")


def run(args: argparse.Namespace) -> None:
    print(script(args.shell))


def script(shell: str) -> str:
    """The script for one of SHELLS."""
    commands = _commands()
    if shell == "fish":
        return _fish(commands)
    # zsh reads bash's completions once it is told to.
    head = "autoload -U +X bashcompinit && bashcompinit\n" if shell == "zsh" else ""
    return head + _bash(commands)


def _commands() -> dict[str, list[_Option]]:
    """Every command as it is typed, and its options."""
    from reelrl.cli.main import COMMANDS

    return {name: _options(module) for name, (module, _) in COMMANDS.items()}


def _options(module: str) -> list[_Option]:
    parser = argparse.ArgumentParser(add_help=False)
    importlib.import_module(module).add_arguments(parser)
    found = [
        _Option(name, tuple(map(str, action.choices or ())), (action.help or "").replace("'", ""))
        for action in parser._actions
        if action.help != argparse.SUPPRESS
        for name in action.option_strings
        if name.startswith("--")
    ]
    return [*found, _Option("--help", (), "show the options")]


def _bash(commands: dict[str, list[_Option]]) -> str:
    first = sorted({name.split()[0] for name in commands})
    second = {word: sorted(name.split()[1] for name in commands if name.startswith(f"{word} ")) for word in first}
    lines = [
        "_reel() {",
        '  local word="${COMP_WORDS[COMP_CWORD]}" before="${COMP_WORDS[COMP_CWORD-1]}" words=""',
        '  local one="${COMP_WORDS[1]}" two="${COMP_WORDS[1]} ${COMP_WORDS[2]}"',
        "  if ((COMP_CWORD == 1)); then",
        f'    words="{" ".join(first)}"',
        "  else",
        '    case "$two $before" in',
    ]
    for name, options in commands.items():
        lines += [
            f'      "{name} "*"{option.name}") words="{" ".join(option.choices)}" ;;'
            for option in options
            if option.choices
        ]
    lines += ["    esac", '    if [[ -z $words && $word == -* ]]; then case "$two " in']
    # Those of two words first: "runs clean" before "runs".
    for name in sorted(commands, key=lambda name: -len(name.split())):
        lines.append(f'      "{name} "*) words="{" ".join(option.name for option in commands[name])}" ;;')
    lines.append("    esac; fi")
    for word, following in second.items():
        if following:
            lines.append(f'    [[ $one == {word} && $COMP_CWORD == 2 ]] && words+=" {" ".join(following)}"')
    lines += [
        "  fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$word"))',
        "}",
        "complete -o default -o bashdefault -F _reel reel",
    ]
    return "\n".join(lines)


def _fish(commands: dict[str, list[_Option]]) -> str:
    from reelrl.cli.main import COMMANDS

    lines = []
    for name, options in commands.items():
        one, _, two = name.partition(" ")
        if two:
            lines.append(f"complete -c reel -n __fish_use_subcommand -a {one}")
            here = f"__fish_seen_subcommand_from {one}; and not __fish_seen_subcommand_from {two}"
            lines.append(f"complete -c reel -n '{here}' -a {two} -d '{_plain(COMMANDS[name][1])}'")
            here = f"__fish_seen_subcommand_from {one}; and __fish_seen_subcommand_from {two}"
        else:
            lines.append(f"complete -c reel -n __fish_use_subcommand -a {one} -d '{_plain(COMMANDS[name][1])}'")
            here = f"__fish_seen_subcommand_from {one}"
        for option in options:
            choices = f" -x -a '{' '.join(option.choices)}'" if option.choices else ""
            about = f" -d '{_plain(option.help)}'" if option.help else ""
            lines.append(f"complete -c reel -n '{here}' -l {option.name[2:]}{choices}{about}")
    return "\n".join(dict.fromkeys(lines))


def _plain(words: str) -> str:
    return words.replace("'", "").replace("%%", "%")
