#!/bin/sh
# Stands in for `pulumi`. $FAKE is a folder: `calls` gets the arguments of each call, `operation` is what
# an operation does, `stack` exists if the stack does.
printf '%s\n' "$*" >> "$FAKE/calls"
[ "$1" = --non-interactive ] && shift

emit() { printf '%s\n' "$1" >> "$LOG"; }
wait_for() { while [ ! -e "$FAKE/$1" ]; do sleep 0.02; done; }

case "$*" in
version) echo v3.205.0 ;;
"whoami --json") echo '{"user": "tester", "url": "file:///state"}' ;;
install) ;;
"stack select "*)
    [ -e "$FAKE/stack" ] || { echo "error: no stack named 'dev' found" >&2; exit 6; } ;;
"stack init "*)
    touch "$FAKE/stack"
    echo 'encryptionsalt: v1:salt' > Pulumi.dev.yaml ;;
"stack ls "*)
    [ -e "$FAKE/stack" ] || { echo '[]'; exit 0; }
    echo '[{"name": "dev", "current": true, "resourceCount": 2}]' ;;
"stack output "*) cat "$FAKE/outputs" ;;
"stack rm "*) rm -f "$FAKE/stack" Pulumi.dev.yaml ;;
"config set "*)
    IFS= read -r value
    printf '%s\n' "$value" >> "$FAKE/inputs"
    echo "# $*" >> Pulumi.dev.yaml ;;
config*) echo "# $*" >> Pulumi.dev.yaml ;;
*)
    previous=
    for argument in "$@"; do
        [ "$previous" = --event-log ] && LOG=$argument
        previous=$argument
    done
    [ -n "$PULUMI_DEBUG_COMMANDS" ] || { echo 'unknown flag: --event-log' >&2; exit 1; }
    : > "$LOG"
    . "$FAKE/operation" ;;
esac
