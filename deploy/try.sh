#!/usr/bin/env bash
# Tries a release's archive on the machine where this runs: Linux, macOS, or Windows with Git's shell.
#
#     deploy/try.sh DIR      DIR has the archives and SHA256SUMS
set -euo pipefail
archives=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

case $(uname -s) in
MINGW* | MSYS*)
    arch=amd64
    [ "${PROCESSOR_ARCHITECTURE:-AMD64}" != ARM64 ] || arch=arm64
    (cd "$archives" && grep "_windows_$arch.zip\$" SHA256SUMS | sha256sum -c)
    unzip -q "$archives"/*_windows_$arch.zip -d "$work"
    unmask=$(echo "$work"/*/unmask.exe)
    ;;
*)
    HOME=$work sh deploy/install.sh "file://$archives"
    unmask=$work/.local/bin/unmask
    ;;
esac
cd "$work"

echo "== text, the same twice"
"$unmask" text --seed 1 --length 64 --steps 8 > first.txt
"$unmask" text --seed 1 --length 64 --steps 8 > second.txt
cmp first.txt second.txt

echo "== a picture"
"$unmask" image --seed 1 --steps 4 --out picture.png
[ -s picture.png ]

echo "== a chat, one line through a pipe"
echo "Tell me about a fox." | "$unmask" chat > chat.txt
[ -s chat.txt ]

echo "== a run of files, stopped and gone on with: renames, locks and an interrupt"
run=("$unmask" image -n 24 --seed 2 --steps 16)
"${run[@]}" --out whole
"${run[@]}" --out stopped &
while [ ! -e stopped/000003.png ]; do sleep 0.1; done
kill -INT $! || true
wait $! || true
"${run[@]}" --out stopped
diff -r whole stopped
"$unmask" verify stopped

echo "== a server, asked and told to end"
"$unmask" serve --listen 127.0.0.1:18080 &
server=$!
for _ in $(seq 120); do
    ! "$unmask" doctor --ready http://127.0.0.1:18080 2> /dev/null || break
    sleep 0.5
done
curl -sS --fail http://127.0.0.1:18080/v1/completions -H 'Content-Type: application/json' \
    -d '{"prompt": "Lily", "max_tokens": 16}'
kill "$server"
wait "$server" || true
echo "all of it works on $(uname -sm)"
