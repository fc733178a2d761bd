#!/bin/sh
# Installs unmask from a release's archives, after it has compared the hash:
#
#     sh install.sh URL [PREFIX]
#
# URL is where SHA256SUMS and the archives are: a release's page of downloads, or file:///a/folder.
# PREFIX is where bin/unmask, its manual pages and completions go; without it ~/.local.
set -eu

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

url=${1:-}
prefix=${2:-$HOME/.local}
[ -n "$url" ] || fail "URL is missing, want where SHA256SUMS and the archives are"

case $(uname -s) in
Linux) os=linux ;;
Darwin) os=darwin ;;
*) fail "the system is $(uname -s), want Linux or Darwin; for Windows, unpack the .zip" ;;
esac
case $(uname -m) in
x86_64 | amd64) arch=amd64 ;;
aarch64 | arm64) arch=arm64 ;;
*) fail "the processor is $(uname -m), want x86_64 or arm64" ;;
esac

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# download writes the file $1 of the release into the working folder.
download() {
    if command -v curl > /dev/null; then
        curl -fsSL -o "$work/$1" "$url/$1" || fail "$url/$1 cannot be downloaded"
    elif command -v wget > /dev/null; then
        wget -q -O "$work/$1" "$url/$1" || fail "$url/$1 cannot be downloaded"
    else
        fail "there is neither curl nor wget"
    fi
}

download SHA256SUMS
archive=$(awk '{print $2}' "$work/SHA256SUMS" | grep "_${os}_${arch}\.tar\.gz\$") ||
    fail "the release has no archive for $os/$arch"
download "$archive"
wanted=$(awk -v name="$archive" '$2 == name {print $1}' "$work/SHA256SUMS")
if command -v sha256sum > /dev/null; then
    found=$(sha256sum "$work/$archive")
else
    found=$(shasum -a 256 "$work/$archive")
fi
[ "${found%% *}" = "$wanted" ] || fail "the hash of $archive is ${found%% *}, want $wanted"

tar -xzf "$work/$archive" -C "$work"
from=$work/${archive%.tar.gz}
share=$prefix/share
mkdir -p "$prefix/bin" "$share/doc/unmask" "$share/man/man1" "$share/bash-completion/completions" \
    "$share/zsh/site-functions" "$share/fish/vendor_completions.d"
# A program that runs is not written over: it gets the new name in one step.
cp "$from/unmask" "$prefix/bin/unmask.new"
mv "$prefix/bin/unmask.new" "$prefix/bin/unmask"
cp "$from"/man/man1/* "$share/man/man1/"
cp "$from/LICENSE" "$from/THIRD-PARTY-NOTICES.txt" "$from/CHANGELOG.md" "$share/doc/unmask/"
cp "$from/completions/unmask.bash" "$share/bash-completion/completions/unmask"
cp "$from/completions/_unmask" "$share/zsh/site-functions/_unmask"
cp "$from/completions/unmask.fish" "$share/fish/vendor_completions.d/unmask.fish"
"$prefix/bin/unmask" version | head -n 1
case ":$PATH:" in
*":$prefix/bin:"*) ;;
*) echo "add $prefix/bin to PATH" ;;
esac
