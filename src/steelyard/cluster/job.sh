# One node's part of a run, on its host: locked, started, watched, ended and cleaned up after.
#
#   sh job.sh VERB LOCK RUN DIR ...
#
# LOCK is the directory that keeps two runs off one host, RUN the run's id, DIR the directory of its files here. Values
# come as arguments and are never made part of this text. What it makes it marks with RUN, and it removes nothing else.

set -u
umask 077

verb=$1 lock=$2 run=$3 dir=$4
shift 4

fail() {
    echo "$*" >&2
    exit 1
}

free() { # PATH: KiB
    df -Pk -- "$1" | awk 'NR == 2 {print $4}'
}

unwritable() { # PATH
    left=$(free "$(dirname -- "$1")")
    [ "${left:-64}" -lt 64 ] && fail "No space left on the device for $1"
    fail "$1 cannot be written"
}

word() { # FILE: its first line
    [ -f "$1" ] && head -n 1 -- "$1"
}

nap() {
    sleep 0.2 2>/dev/null || sleep 1
}

owner() { # PATH: the number of the login it is of; nothing where it is a link to elsewhere
    [ -L "$1" ] || stat -c %u -- "$1" 2>/dev/null
}

is_mine() { # PATH: whether this login made it; what another made says nothing of us
    [ "$(owner "$1")" = "$(id -u)" ]
}

is_ours() { # whether the directory is this run's: it says so, and is no other login's
    [ -n "$run" ] && [ -f "$dir/run" ] && is_mine "$dir" && [ "$(word "$dir/run")" = "$run" ]
}

is_held() { # whether the host is this run's: nobody else's, and not being left
    [ -n "$run" ] && [ "$(word "$lock/run")" = "$run" ] && [ ! -e "$lock/leaving" ]
}

owned() { # the processes of this run that are not in a container
    [ -n "$run" ] || return 0
    grep -lzxsF "STEELYARD_RUN=$run" /proc/[0-9]*/environ | cut -d / -f 3
}

boxes() { # ENGINE [OPTION...]: the containers of this run
    made=$1
    shift
    [ -n "$run" ] && [ -n "$made" ] || return 0
    "$made" ps -q --no-trunc --filter "label=steelyard.run=$run" "$@"
}

is_alive() { # DIRECTORY: whether somebody on this host still works for the run whose directory it is; `pid` is who
    pid=$(word "$1/pid")
    case $pid in '' | *[!0-9]* | 0 | 1) return 1 ;; esac
    grep -qzxsF "$1/job.sh" "/proc/$pid/cmdline"
}

take() { # HOLDER ENGINE: `taken`, or who has it
    holder=$1 engine=$2
    if mkdir -- "$lock" 2>/dev/null; then
        chmod 755 -- "$lock"
        umask 022
        {
            echo "$run" > "$lock/run" && echo "$holder" > "$lock/holder" && echo "$dir" > "$lock/directory" &&
                echo "$engine" > "$lock/engine" && date +%s > "$lock/since" && echo 0 > "$lock/beat"
        } 2> /dev/null || { rm -rf -- "$lock" && unwritable "$lock"; }
        echo taken
        return
    fi
    [ -d "$lock" ] || fail "$lock cannot be made"
    theirs=$(word "$lock/directory")
    if [ "$(word "$lock/run")" = "$run" ]; then
        [ "$theirs" = "$dir" ] && echo taken && return
        fail "it is a machine that stands twice among the hosts, under two names"
    fi
    beaten=$(stat -c %Y -- "$lock/beat" 2>/dev/null || stat -c %Y -- "$lock" 2>/dev/null || date +%s)
    echo held
    word "$lock/run" || echo
    word "$lock/holder" || echo
    word "$lock/since" || echo 0
    echo $(($(date +%s) - beaten))
    if [ -n "$theirs" ] && is_alive "$theirs"; then echo alive; else echo dead; fi
    echo "$theirs"
    word "$lock/engine" || echo
    if is_mine "$lock"; then echo mine; else echo theirs; fi
}

beat() { # COUNT
    [ "$(word "$lock/run")" = "$run" ] || fail "the lock is no longer ours"
    { echo "$1" > "$lock/beat.new" && mv -f -- "$lock/beat.new" "$lock/beat"; } 2> /dev/null || rm -f -- "$lock/beat.new"
    free "$dir"
}

gone() { # TOP: the directories above ours that were made with it, as far as nobody else uses them
    at=$dir
    while [ "$at" != "$1" ] && at=$(dirname -- "$at") && rmdir -- "$at" 2>/dev/null; do :; done
}

prepare() { # SECRET FILE ...: the directory, with a copy of each secret
    is_held || fail "the lock is no longer ours"
    top=$dir
    while [ ! -e "$(dirname -- "$top")" ]; do top=$(dirname -- "$top"); done
    if [ "$top" != "$dir" ]; then
        (umask 022 && mkdir -p -- "$(dirname -- "$dir")") || exit 1
    fi
    [ -e "$dir" ] && fail "$dir is there already, and is not this run's (of $(word "$dir/run"))"
    mkdir -- "$dir" || exit 1
    { echo "$run" > "$dir/run" && echo "$top" > "$dir/made" && mkdir -- "$dir/secrets"; } 2> /dev/null || {
        rm -rf -- "$dir"
        gone "$top"
        unwritable "$dir"
    }
    is_held || { # asked over a link that broke, and come to it after the run had left
        rm -rf -- "$dir"
        gone "$top"
        fail "the lock is no longer ours"
    }
    while [ $# -gt 1 ]; do
        cat -- "$2" > "$dir/secrets/$1" || fail "$2 cannot be read"
        shift 2
    done
}

start() { # LEASE ENGINE COMMAND...: in a session of its own, so that it outlives the link
    is_ours || fail "$dir is not this run's"
    setsid sh "$dir/job.sh" watch "$lock" "$run" "$dir" "$@" < /dev/null > /dev/null 2>&1 &
    left=100
    until [ -s "$dir/pid" ]; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "it did not start ($(free "$dir") KiB are free)"
        nap
    done
}

watch() { # LEASE ENGINE COMMAND...
    lease=$1 engine=$2
    shift 2
    cd -- "$dir" || exit 1
    env STEELYARD_RUN="$run" "$@" > log 2>&1 &
    child=$!
    echo $$ > pid
    (
        last='' quiet=0
        while is_ours; do
            sleep 1
            now=$(word "$lock/beat")
            if [ "$now" = "$last" ]; then quiet=$((quiet + 1)); else last=$now quiet=0; fi
            if [ "$lease" -gt 0 ] && [ "$quiet" -ge "$lease" ]; then # nobody has asked after us for so long
                halt "$engine" 5
                clean "$engine" # which ends us too, unless the engine does not answer: then it is tried again
                sleep 10
            fi
        done
    ) &
    wait "$child"
    echo $? > status.new && mv -f status.new status
    wait # for the one that looks after the lease: what is not fetched must not stay for ever
}

follow() { # OFFSET: the log from there on, until the end
    tail -c "+$(($1 + 1))" -f -- "$dir/log" &
    reading=$!
    while [ ! -f "$dir/status" ] && is_ours && kill -0 "$reading" 2>/dev/null; do nap; done
    nap
    kill "$reading" 2>/dev/null
}

rest() { # OFFSET: the log from there to where it is now
    tail -c "+$(($1 + 1))" -- "$dir/log"
}

status() { # ENGINE: running, gone, or the exit status, then what the engine says of its containers
    is_ours || { echo gone && return; }
    if [ -f "$dir/status" ]; then word "$dir/status"; else echo running; fi
    free "$dir"
    [ -z "$1" ] && return
    [ -f "$dir/oom" ] && echo 'true - -' # Podman before 5 says it where it was started, and not when asked
    for box in $(boxes "$1" -a 2>/dev/null); do
        "$1" inspect --format '{{.State.OOMKilled}} {{.State.ExitCode}} {{.State.Running}} {{.State.Error}}' "$box"
    done
}

halt() { # ENGINE GRACE: asked first, then made to
    found=$(boxes "$1") && [ -n "$found" ] && "$1" stop -t "$2" $found > /dev/null
    found=$(owned) && [ -n "$found" ] && kill $found 2>/dev/null
    left=$(($2 * 5))
    while [ "$left" -gt 0 ] && [ -n "$(owned)" ]; do
        nap
        left=$((left - 1))
    done
    found=$(owned) && [ -n "$found" ] && kill -KILL $found 2>/dev/null
    return 0
}

clean() { # ENGINE: remove all that carries this run's mark; what is left is said
    if ! found=$(boxes "$1" -a 2>/dev/null); then # lock, files and lease stay, so that it can still be ended
        echo "left: its container, if it runs: $("$1" ps -q 2>&1 | tail -n 1)"
        return 0
    fi
    is_mine "$lock" && is_held && : 2> /dev/null > "$lock/leaving"
    [ -n "$found" ] && "$1" rm -f -v $found > /dev/null
    found=$(owned) && [ -n "$found" ] && kill -KILL $found 2>/dev/null
    watcher=''
    if is_ours; then
        is_alive "$dir" && watcher=$pid
        top=$(word "$dir/made")
        rm -rf -- "$dir"
        gone "$top"
    fi
    [ -n "$run" ] && is_mine "$lock" && [ "$(word "$lock/run")" = "$run" ] && rm -rf -- "$lock"
    is_ours && echo "left: $dir"
    found=$(boxes "$1" -a) && [ -n "$found" ] && echo "left: containers $found"
    [ -n "$watcher" ] && kill -s KILL -- "-$watcher" 2>/dev/null # last: it may be us
    return 0
}

"$verb" "$@"
