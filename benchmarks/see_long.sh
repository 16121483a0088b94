#!/bin/sh
# The long rows of docs/results/autoencoder.md, on a GPU: five games over 100 000 frames, then what their embeddings cost and know.
#
#     sh benchmarks/see_long.sh [FOLDER]         # default docs/results/see
#
# Every command goes on where it was stopped, by Ctrl+C, a time limit or kill -9: run the script again. To move to
# another machine take FOLDER along, the .state folder in it too. Five learners made 376 frames of each game a second on
# an H200; an evaluation takes some minutes of one CPU core for each game and no GPU.
set -eu
out=${1:-docs/results/see}
reel="${REEL:-reel}"
for who in default config:obgd config:places; do
    $reel compare autoencoder --contestants "$who" --frames 100000 --device cuda --together 5 \
        --keep "$out/weights" -o "$out/long.json"
done
for who in default config_places; do
    [ -e "$out/evaluated/$who/results.json" ] ||
        $reel evaluate autoencoder "$out"/weights/100000/*-"$who"-0.safetensors -o "$out/evaluated/$who"
done
