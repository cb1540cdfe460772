#!/bin/sh
# kruntime-cache: keeps tools on the volume that all Runs of a Pod share.
#
#   kruntime-cache ensure <key> -- <command> [args...]
#   kruntime-cache fetch <key> <https-url> [--extract=zip]
#
# `ensure` runs the command at most once per key, with KRUNTIME_CACHE_STAGING set to an empty
# directory. What the command leaves there is published under the key in one step and the path is
# printed; if the command fails nothing is published and its exit code is passed on. The command's
# own standard output goes to standard error, so that the path is all there is to capture.
# `fetch` is the same for a download. Needs flock, sha256sum; for fetch also curl, and unzip for
# archives. Downloads, archives and files in them are limited to KRUNTIME_CACHE_MAX_BYTES.
set -eu

fail() {
    printf 'kruntime-cache: %s\n' "$1" >&2
    exit "${2:-1}"
}

usage() {
    fail 'usage: kruntime-cache ensure <key> -- <command> [args...] | fetch <key> <https-url> [--extract=zip]' 2
}

need() {
    command -v "$1" >/dev/null 2>&1 || fail "$1 is not installed" 127
}

max=${KRUNTIME_CACHE_MAX_BYTES:-4294967296}
case $max in
'' | *[!0-9]*) fail 'KRUNTIME_CACHE_MAX_BYTES must be a number of bytes' 2 ;;
esac

check_key() {
    case $1 in
    '' | /* | */ | *//* | .* | bin | bin/* | */. | */./* | */.. | */../* | *[[:cntrl:]]* | *\\*)
        fail "key \"$1\" must be a clean relative path that begins with neither a dot nor bin" 2
        ;;
    esac
}

# Refuses a key below a published entry: it would change what others use.
check_place() {
    above=$1
    while :; do
        case $above in
        */*) above=${above%/*} ;;
        *) return 0 ;;
        esac
        [ ! -e "$root/$above/.complete" ] || fail "key \"$1\" lies inside the entry \"$above\"" 2
    done
}

ensure() {
    key=$1
    shift
    check_key "$key"
    check_place "$key"
    target=$root/$key
    if [ ! -f "$target/.complete" ]; then
        need flock
        need sha256sum
        name=$(printf '%s' "$key" | sha256sum)
        name=${name%% *}
        (umask 0 && : >>"$root/.locks/$name")
        exec 9>>"$root/.locks/$name"
        flock -x 9
        [ -f "$target/.complete" ] || build "$@"
        exec 9>&-
    fi
    printf '%s\n' "$target"
}

build() {
    # Whoever holds the lock is alone with the key: what lies here was left by a crash.
    rm -rf "$root/.staging/$name".*
    staging=$root/.staging/$name.$$
    trap 'rm -rf "$staging"' EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkdir "$staging"
    status=0
    KRUNTIME_CACHE_STAGING=$staging "$@" 9>&- >&2 || status=$?
    [ "$status" -eq 0 ] || exit "$status"
    rm -rf "$staging/.complete"
    : >"$staging/.complete" || fail 'the command removed its staging directory'
    chmod 755 "$staging"
    if [ -e "$target" ] || [ -L "$target" ]; then
        [ -z "$(find "$target/" -name .complete 2>/dev/null | head -n 1)" ] ||
            fail "key \"$key\" is the parent of published entries" 2
        rm -rf "$target"
    fi
    case $key in
    */*) (umask 0 && mkdir -p "$root/${key%/*}") ;;
    esac
    mv "$staging" "$target"
    [ -f "$target/.complete" ] || fail "key \"$key\" could not be published"
    trap - EXIT HUP INT TERM
}

# Runs with KRUNTIME_CACHE_STAGING set, as the command of an `ensure`.
download() {
    url=$1
    need curl
    file=${url%%[?#]*}
    file=${file##*/}
    case $file in
    '' | .* | *[!A-Za-z0-9._+-]*) file=download ;;
    esac
    # No file may grow beyond the limit, whatever its length was said to be.
    ulimit -f "$((max / 512 + 1))"
    curl --fail --silent --show-error --location --max-redirs 10 --proto =https --proto-redir =https \
        --max-filesize "$max" --output "$KRUNTIME_CACHE_STAGING/$file" --url "$url" || exit "$?"
    [ "$2" != zip ] || extract "$KRUNTIME_CACHE_STAGING/$file"
}

extract() {
    need unzip
    # Beside the content, which may bring a file of the same name.
    archive=$KRUNTIME_CACHE_STAGING.zip
    mv "$1" "$archive"
    trap 'rm -f "$archive"' EXIT
    unzip -Z1 "$archive" | while IFS= read -r entry; do
        case $entry in
        /* | .. | ../* | */.. | */../* | *\\*) fail "archive entry \"$entry\" would leave the entry" ;;
        esac
    done || exit 1
    # Links and devices show by the first letter of their line.
    if unzip -Z "$archive" | grep -q '^[lbcps][rwxsStT-]\{9\} '; then
        fail 'the archive holds links or special files'
    fi
    size=$(unzip -Zt "$archive" | sed -n 's/^[0-9]* files\{0,1\}, \([0-9]*\) bytes uncompressed.*/\1/p')
    case $size in
    '' | *[!0-9]*) fail 'the archive cannot be read' ;;
    esac
    [ "$size" -le "$max" ] || fail "the archive holds $size bytes, $max are allowed"
    unzip -qq "$archive" -d "$KRUNTIME_CACHE_STAGING" </dev/null || fail 'the archive cannot be extracted'
    [ -z "$(find "$KRUNTIME_CACHE_STAGING" ! -type f ! -type d | head -n 1)" ] ||
        fail 'the archive holds links or special files'
}

here=$(dirname "$0")
root=${KRUNTIME_TOOL_CACHE:-$here/..}
[ -d "$root/.locks" ] && [ -d "$root/.staging" ] || fail "\"$root\" is no tool cache"

case ${1:-} in
ensure)
    [ "$#" -ge 4 ] && [ "$3" = -- ] || usage
    key=$2
    shift 3
    ensure "$key" "$@"
    ;;
fetch)
    [ "$#" -ge 3 ] && [ "$#" -le 4 ] || usage
    case ${4:---extract=none} in
    --extract=none) kind=none ;;
    --extract=zip) kind=zip ;;
    *) usage ;;
    esac
    case $3 in
    https://?*) ;;
    *) fail 'only https addresses can be fetched' 2 ;;
    esac
    ensure "$2" "$0" --download "$3" "$kind"
    ;;
--download)
    [ "$#" -eq 3 ] && [ -n "${KRUNTIME_CACHE_STAGING:-}" ] || usage
    download "$2" "$3"
    ;;
*) usage ;;
esac
