# Shared helpers for the service scripts in this folder.  Source it; do not run it.
# shellcheck shell=bash
#
# Contract of every script here:
#   NAME start|stop|status|env [STATE_DIR] [OPTIONS...]
# STATE_DIR defaults to /tmp/jobd-services/NAME.  `start` is idempotent: when
# the service answers already it only prints the environment again.  Progress
# goes to stderr; stdout carries nothing but KEY=VALUE lines, so that
#   set -a; eval "$(NAME start)"; set +a
# gives a client what it needs.

log() { printf '%s: %s\n' "${SERVICE:-service}" "$*" >&2; }
die() { log "$*"; exit 1; }

# print_env KEY VALUE: one line, quoted for eval.
print_env() { printf '%s=%q\n' "$1" "$2"; }

# wait_for SECONDS WHAT CMD...: bounded polling, five times a second.
wait_for() {
    local limit=$1 what=$2 i; shift 2
    for ((i = 0; i < limit * 5; i++)); do
        if "$@" >/dev/null 2>&1; then return 0; fi
        sleep 0.2
    done
    log "gave up after ${limit}s waiting for $what"
    return 1
}

pid_starttime() { # start time in clock ticks: field 22 of /proc/PID/stat
    local s; s=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    s=${s##*) }; set -- $s; echo "${20}"
}

# A Unix socket path may hold 107 characters: keep the state directory short.
check_state_len() { [ ${#STATE} -le "${1:-80}" ] || die "state directory $STATE is too long for its sockets"; }

# record_pid FILE PID: pid and start time, so that a recycled pid is never hit.
record_pid() { printf '%s %s\n' "$2" "$(pid_starttime "$2")" >"$1"; }

# pid_of FILE: prints the pid when that very process is still alive.
pid_of() {
    local pid st
    [ -s "$1" ] || return 1
    read -r pid st <"$1" || true
    [ -n "$pid" ] && [ "$(pid_starttime "$pid")" = "$st" ] || return 1
    # a zombie is dead for our purposes
    [ "$(sed 's/.*) //' "/proc/$pid/stat" 2>/dev/null | cut -c1)" != Z ] || return 1
    echo "$pid"
}

# start_bg NAME CMD...: runs CMD in its own session, output in STATE/log/NAME.out,
# identity in STATE/run/NAME.pid.  CMD must stay in the foreground.
start_bg() {
    local name=$1; shift
    mkdir -p "$STATE/run" "$STATE/log"
    if pid_of "$STATE/run/$name.pid" >/dev/null; then return 0; fi
    setsid "$@" </dev/null >>"$STATE/log/$name.out" 2>&1 9>&- &
    record_pid "$STATE/run/$name.pid" $!
}

# stop_bg NAME [SECONDS]: TERM, then KILL once SECONDS have gone.
stop_bg() {
    local name=$1 limit=${2:-10} pid i
    pid=$(pid_of "$STATE/run/$name.pid") || { rm -f "$STATE/run/$name.pid"; return 0; }
    kill -TERM "$pid" 2>/dev/null || true
    for ((i = 0; i < limit * 5; i++)); do
        pid_of "$STATE/run/$name.pid" >/dev/null || break
        sleep 0.2
    done
    if pid=$(pid_of "$STATE/run/$name.pid"); then
        log "$name ignored TERM, killing $pid"
        kill -KILL "$pid" 2>/dev/null || true
    fi
    rm -f "$STATE/run/$name.pid"
}

is_up() { pid_of "$STATE/run/$1.pid" >/dev/null; }

need_root() { [ "$(id -u)" = 0 ] || die "must run as root"; }

# One start/stop at a time per state directory (fd 9 is not inherited by daemons).
lock_state() {
    mkdir -p "$STATE"
    exec 9>"$STATE/.lock"
    flock -w 600 9 || die "another start/stop holds $STATE"
}

pkg_installed() {
    dpkg-query -W -f='${db:Status-Abbrev}\n' "$@" 2>/dev/null | grep -vq '^ii ' && return 1
    dpkg-query -W "$@" >/dev/null 2>&1
}

# Keeps maintainer scripts from starting daemons while we install.
_with_no_autostart() {
    local f=/usr/sbin/policy-rc.d made=0 rc=0
    if [ ! -e "$f" ]; then
        printf '#!/bin/sh\nexit 101\n' >"$f"; chmod 755 "$f"; made=1
    fi
    "$@" || rc=$?
    [ "$made" = 1 ] && rm -f "$f"
    return "$rc"
}

# apt_ensure PKG...: installs what is missing, non-interactively, no auto-start.
apt_ensure() {
    local missing=() p
    for p in "$@"; do pkg_installed "$p" || missing+=("$p"); done
    [ ${#missing[@]} = 0 ] && return 0
    log "installing ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    local apt=(apt-get -o DPkg::Lock::Timeout=600 -o Acquire::Retries=3 -y -qq)
    local out=${STATE:-/tmp}/apt.log
    if ! _with_no_autostart "${apt[@]}" install --no-install-recommends "${missing[@]}" >>"$out" 2>&1 9>&-; then
        "${apt[@]}" update >>"$out" 2>&1 9>&-
        _with_no_autostart "${apt[@]}" install --no-install-recommends "${missing[@]}" >>"$out" 2>&1 9>&- ||
            { tail -n 20 "$out" >&2; die "could not install ${missing[*]}"; }
    fi
}

# The base URI of the Debian mirror this machine is set up with, read at run
# time and never written into a file of the repository.
debian_uri() {
    local f
    for f in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list.d/*.sources; do
        [ -r "$f" ] || continue
        awk '$1 == "URIs:" { print $2; exit }' "$f" | grep . && return 0
    done
    awk '$1 == "deb" { for (i = 2; i <= NF; i++) if ($i ~ /^https?:/) { print $i; exit } }' \
        /etc/apt/sources.list 2>/dev/null | grep .
}
