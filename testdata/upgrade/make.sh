#!/bin/sh
# Makes the files in a folder named after a release, with that release's program: make.sh PROGRAM
# FOLDER, run in testdata/. Each run is whole here; tests cut it and let today's program go on.
set -eu
program=$1
out=$2
run() { # NAME PACK FLAGS...: a file of lines
	name=$1
	pack=$2
	shift 2
	"$program" text --model "$pack" --seed 3 -n 3 --out "$out/$name.jsonl" "$@"
}
mkdir -p "$out"
run alike packs/sdtt-tiny --length 8
run exact oracle:letters:length=12 --length 12
run grammar oracle:letters:length=12 --length 12 --regex '[a-e ]+'
run last-block packs/sdar-tiny --length 14
run network packs/modernbert-chat-tiny --length 8
run raw-end packs/dreamon-tiny --length 8
"$program" text --model packs/sdtt-tiny --seed 3 -n 3 --length 8 --shard 0/2 --out "$out/shard-0.jsonl"
"$program" text --model packs/sdtt-tiny --seed 3 -n 3 --length 8 --shard 1/2 --out "$out/shard-1.jsonl"
"$program" image --model packs/mage-tiny --seed 3 -n 2 --steps 2 --out "$out/pictures"

# A run that a hub and a worker have begun and that was interrupted: its file, the hub's secrets, and
# the worker's cache of weights.
mkdir -p "$out/fleet/tiny"
cp packs/sdtt-tiny/config.json packs/sdtt-tiny/model.safetensors "$out/fleet/tiny/"
cd "$out/fleet"
"$program" text --model ./tiny --sampler hybrid --temperature 1 --seed 3 -n 200 --length 16 --steps 16 \
	--out joined.jsonl --hub 127.0.0.1:0 &
hub=$!
while [ ! -s joined.jsonl.hub ]; do sleep 0.1; done
"$program" worker --join @joined.jsonl.hub --cache cache &
worker=$!
while ! ls cache/trees/*/*/model.safetensors && [ -e joined.jsonl.hub ]; do sleep 0.1; done
kill -INT $hub
wait $hub || true
kill -INT $worker
wait $worker || true
rm -r tiny cache/files/*.lock
