#!/bin/sh
# Checks what the targets do not install by themselves, and says how to get it.
set -u
missing=0
need() { # program, what it is for, how to get it
    command -v "$1" >/dev/null 2>&1 && return
    echo "missing: $1 ($2). $3" >&2
    missing=1
}
need cargo "builds everything" "Install Rust 1.95 or newer: https://rustup.rs"
need go "builds the Kubernetes payload of the demo and the tests" "Install Go 1.26 or newer: https://go.dev/dl"
need cc "links Rust programs" "apt-get install gcc libc6-dev"
need apt-get "installs the demo's packages" "The demo and the full tests run on Debian 12 or newer."
exit "$missing"
