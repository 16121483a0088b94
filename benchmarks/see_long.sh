#!/bin/sh
# The long rows of docs/see.md, on a GPU: five games over 100 000 frames, then what their embeddings cost and know.
#
#     sh benchmarks/see_long.sh [FOLDER]         # default docs/results/see
#
# Every command goes on where it was stopped, by Ctrl+C, a time limit or kill -9: run the script again. To move to
# another machine take FOLDER along, the .state folder in it too. At 200 frames a second of all five games, which is the
# least that was seen on an H200, a race takes 500 s; an evaluation takes some minutes of one CPU core and no GPU.
set -eu
out=${1:-docs/results/see}
reel="${REEL:-reel}"
for who in default config:obgd default+bounded=true; do
    $reel compare autoencoder --contestants "$who+step=compiled-graph" --frames 100000 --device cuda --together 5 \
        --keep "$out/weights" -o "$out/long.json"
done
for weights in "$out"/weights/100000/*-default*.safetensors; do
    name=$(basename "$weights" .safetensors)
    [ -e "$out/evaluated/$name/results.json" ] || $reel evaluate autoencoder "$weights" -o "$out/evaluated/$name"
done
