"""Check the encoders, packages and folders that reelrl needs.

Exit status 1 means that something essential is missing; the line that begins with "miss" says what and how to get it.
"""

from __future__ import annotations

import os
import platform
import sys
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from reelrl.cli import options, output
from reelrl.errors import ReelError
from reelrl.names import BACKENDS
from reelrl.storage.files import cache_dir, writable_folder

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator


@dataclass(frozen=True)
class Finding:
    """One line of the report. `state` is "ok", "note" (works without) or "miss" (essential)."""

    state: str
    what: str
    detail: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)
    parser.add_argument("--quick", action="store_true", help="skip the two-frame self-test of each encoder")
    parser.add_argument("--clean", action="store_true", help="remove what Doom matches that were killed left behind")


def run(args: argparse.Namespace) -> int:
    findings: list[Finding] = []
    for finding in examine(self_test=not args.quick, clean=args.clean):
        findings.append(finding)
        _show(finding)
    missing = [finding for finding in findings if finding.state == "miss"]
    if args.json:
        output.as_json({"ok": not missing, "findings": [asdict(finding) for finding in findings]})
    else:
        output.next_command("reel doctor   once the lines with `miss` are mended" if missing else "reel demo")
    return 1 if missing else 0


def _show(finding: Finding) -> None:
    first, *more = finding.detail.splitlines()
    output.line(finding.state, f"{finding.what:<24}", first)
    for line in more:
        output.line("", " " * 24, line)


def examine(*, self_test: bool, clean: bool = False) -> Iterator[Finding]:
    """All findings, cheap ones first."""
    yield from _machine()
    yield from _packages()
    yield from _stages()
    yield from _folders()
    yield _doom_leftovers(clean)
    for name in BACKENDS:
        yield _encoder(name, self_test)


def _machine() -> Iterator[Finding]:
    version = platform.python_version()
    known = (3, 11) <= sys.version_info[:2] <= (3, 13)
    yield Finding("ok" if known else "note", "python", version if known else f"{version}; tested with 3.11 to 3.13")
    yield Finding("ok", "platform", platform.platform())
    yield Finding("ok", "cpus", f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} usable")
    yield _scheduling()


def _scheduling() -> Finding:
    classes = {os.SCHED_OTHER: "other", os.SCHED_BATCH: "batch", os.SCHED_IDLE: "idle"}
    policy = classes.get(os.sched_getscheduler(0), "real-time")
    if policy == "real-time":
        return Finding("note", "scheduling", "real-time; encoders may starve everything else on this machine")
    root = "; as root, SVT-AV1 asks for real-time priority, which reelrl takes back" if os.geteuid() == 0 else ""
    return Finding("ok", "scheduling", policy + root)


def _packages() -> Iterator[Finding]:
    """Versions of what the package's own metadata asks for: essential ones, then those of each extra."""
    try:
        wanted = _requirements()
    except metadata.PackageNotFoundError:
        yield Finding("note", "packages", "reelrl is not installed, so its needs are unknown; run: pip install -e .")
        return
    for extra, requirement in wanted:
        yield _package(extra, requirement)


STAGES = {
    "encode": ("train", "vmaf"),
    "stream": ("train", "play", "onnx"),
    "see": ("train", "atari"),
    "act": ("train", "doom", "marl"),
}
"""What all commands of a stage need beside the core install: its extras."""
BENCHMARL = "benchmarl"
"""Which no extra can name: it asks for an old av, and does not need it."""


def _stages() -> Iterator[Finding]:
    """What each stage lacks, and the one line that mends it."""
    try:
        wanted = _requirements()
    except metadata.PackageNotFoundError:
        return
    lacking = {extra: [each.name for of, each in wanted if of == extra and not _installed(each)] for extra, _ in wanted}
    for stage, extras in STAGES.items():
        short = [extra for extra in extras if lacking.get(extra)]
        missing = [name for extra in short for name in lacking[extra]]
        lines = [f"pip install 'reelrl[{','.join(short)}]'"] if short else []
        if stage == "act" and not _installed(Requirement(BENCHMARL)):
            missing.append(BENCHMARL)
            lines.append(f"pip install --no-deps {BENCHMARL}")
        if missing:
            yield Finding("note", f"stage {stage}", f"lacks {', '.join(missing)}; run: {' && '.join(lines)}")
        else:
            yield Finding("ok", f"stage {stage}", "all of its commands have what they need")


def _installed(requirement: Requirement) -> bool:
    return _package("", requirement).state == "ok"


def _requirements() -> list[tuple[str, Requirement]]:
    by_extra: list[tuple[str, Requirement]] = []
    extras = [extra for extra in metadata.metadata("reelrl").get_all("Provides-Extra") or [] if extra != "dev"]
    requirements = [Requirement(text) for text in metadata.requires("reelrl") or []]
    for extra in ("", *extras):
        for requirement in requirements:
            plain = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            chosen = plain if not extra else not plain and requirement.marker.evaluate({"extra": extra})  # type: ignore[union-attr]
            if chosen and requirement.name != "reelrl":
                by_extra.append((extra, requirement))
    return by_extra


def _package(extra: str, requirement: Requirement) -> Finding:
    name = f"{requirement.name} [{extra}]" if extra else requirement.name
    lacking = "note" if extra else "miss"
    command = f"pip install 'reelrl[{extra}]'" if extra else f"pip install '{requirement.name}{requirement.specifier}'"
    try:
        version = metadata.version(requirement.name)
    except metadata.PackageNotFoundError:
        return Finding(lacking, name, f"not installed; run: {command}")
    if not requirement.specifier.contains(version, prereleases=True):
        return Finding(lacking, name, f"{version}, but {requirement.specifier} is needed; run: {command}")
    return Finding("ok", name, version)


def _folders() -> Iterator[Finding]:
    yield _data_folder(os.environ.get("REELRL_DATA"))
    try:
        yield Finding("ok", "cache", str(writable_folder(cache_dir())))
    except ReelError as error:
        yield Finding("miss", "cache", f"{error}, or set REELRL_CACHE")


def _data_folder(named: str | None) -> Finding:
    if not named:
        return Finding("note", "data", "REELRL_DATA is not set; generated clips and traces are used")
    folder = Path(named).expanduser()
    if not folder.is_dir():
        return Finding("miss", "data", f"REELRL_DATA is {named}, which is no folder; correct or unset it")
    counts = {name: _count_files(folder / name) for name in ("clips", "traces", "videos")}
    held = "   ".join(f"{count} {name}" for name, count in counts.items() if count)
    return Finding("ok" if held else "note", "data", f"{folder}   {held or 'holds no clips/, traces/ or videos/'}")


def _count_files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*")) if folder.is_dir() else 0


def _doom_leftovers(clean: bool) -> Finding:
    from reelrl.act.doom import engines

    left = engines.leftovers()
    if not left:
        return Finding("ok", "doom leftovers", "none")
    named = [f"process {pid}" for pid in left.processes]
    named += [str(path) for path in (*left.shared_memory, *left.folders)]
    counts = f"{len(left.processes)} processes   {len(left.shared_memory)} shared memory   {len(left.folders)} folders"
    if clean:
        left.remove()
        return Finding("ok", "doom leftovers", "\n".join([f"removed {counts}", *named]))
    return Finding("note", "doom leftovers", "\n".join([f"{counts}; run: reel doctor --clean", *named]))


def _encoder(name: str, self_test: bool) -> Finding:
    try:
        from reelrl.encode.codecs import backends

        abilities = backends.capabilities(name)
        more = "\n".join([_abilities(abilities), *abilities.notes, abilities.library])
        if not self_test:
            return Finding("ok", f"encoder {name}", f"{abilities.version}\n{more}")
        from reelrl.encode.codecs import selftest

        tested = selftest.run(name)
        verdict = f"self-test {tested.seconds:.1f} s" if tested.ok else f"self-test failed: {tested.detail}"
        return Finding("ok" if tested.ok else "miss", f"encoder {name}", f"{abilities.version}   {verdict}\n{more}")
    except (ReelError, ImportError, OSError) as error:
        return Finding("miss", f"encoder {name}", str(error))


def _abilities(capabilities: object) -> str:
    words = {
        "superblock_offsets": "superblock offsets",
        "picture_qp": "picture QP",
        "base_qp_change": "base-QP change",
        "random_access": "random access",
        "quality": "quality",
    }
    able = [word for field, word in words.items() if getattr(capabilities, field, False)]
    return ", ".join(able) or "no control"
