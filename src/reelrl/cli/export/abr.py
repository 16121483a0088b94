"""Write a learned bitrate policy for players: an ES module without dependencies, and ONNX.

reel export abr scalefree -o policy/         any ladder
reel export abr ppo -o policy/               Pensieve's six rungs
reel export abr runs/0007-abr -o policy/     the best policy of a run

policy/policy.js    plays in dash.js 5, hls.js 1 and Shaka 5: no service is needed
policy/policy.onnx  the same net for other programs
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from reelrl.cli import options, output
from reelrl.errors import missing_extra

if TYPE_CHECKING:
    import argparse


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("policy", help="ppo, scalefree, a run of `reel train abr` or a policy.safetensors")
    parser.add_argument("-o", "--output", required=True, metavar="FOLDER", help="where policy.js and policy.onnx go")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from reelrl.storage.files import refuse_overwriting, writable_folder, write_atomic
    from reelrl.storage.regular_files import own_path
    from reelrl.stream.export.module import es_module, exportable
    from reelrl.stream.export.onnx_graph import onnx_bytes

    controller = exportable(args.policy)
    folder = writable_folder(args.output)
    documents = {"policy.js": es_module(controller, args.policy).encode()}
    try:
        documents["policy.onnx"] = onnx_bytes(controller)
    except ModuleNotFoundError as error:  # players need the module only
        extra = missing_extra(error)
        if extra is None:
            raise
        print(f"note   policy.onnx is left out: {extra}", file=sys.stderr)
    for name, content in documents.items():
        refuse_overwriting(folder / name, controller.path)
        write_atomic(own_path(folder / name), content)
    if args.json:
        output.as_json({name: {"path": folder / name, "bytes": len(content)} for name, content in documents.items()})
        return 0
    for name, content in documents.items():
        output.line("wrote", folder / name, f"{len(content) / 1000:.0f} kB")
    output.line("use", "dash.js", "forDash(player, dashjs)")
    output.line("use", "hls.js", "new Hls({ abrController: forHls(Hls) })")
    output.line("use", "Shaka", 'player.configure("abrFactory", forShaka(player))')
    return 0
