# One node's part of a run on its host: holds the host, prepares, starts, watches, stops and cleans up the job.
#
#   sh -c 'script=$(cat) && eval "$script"' sh VERB RUN DIR ...
#
# RUN is the run's ID and DIR its control directory on this host, which only this user can enter. The training program
# sees DIR/job: planned files and secrets, which its container cannot write, and DIR/job/output, which it can write.
# Nothing that is read or executed here is in a place where a container or another user can write. Values come as
# arguments and never become part of this text. Everything created here is marked with RUN; nothing else is removed.

set -u
umask 077

verb=$1 run=$2 dir=$3
shift 3

fail() {
    echo "$*" >&2
    exit 1
}

free() { # PATH: KiB
    df -Pk -- "$1" | awk 'NR == 2 {print $4}'
}

unwritable() { # PATH [MORE]
    at=$1
    while [ ! -e "$at" ]; do at=$(dirname -- "$at"); done
    left=$(free "$at")
    [ "${left:-64}" -lt 64 ] && fail "No space left on device for $1"
    fail "cannot write $1${2:+ $2}"
}

word() { # FILE: its first line
    line=''
    [ -f "$1" ] && IFS= read -r line < "$1"
    [ -n "$line" ] && printf '%s\n' "$line"
}

put() { # TEXT FILE
    printf '%s\n' "$1" > "$2"
} 2> /dev/null

nap() {
    sleep 0.2 2>/dev/null || sleep 1
}

login() { # UID: its name
    id -nu -- "$1" 2>/dev/null || echo "$1"
}

engine() { # COMMAND...: with a time limit, because an engine may hang
    timeout 100 "$@"
}

is_own_group() { # GROUP: whether this user is its only member, as umask 002 assumes
    [ "$1" = "$(id -nu)" ] && [ "$1" = "$(id -ng)" ] || return 1
    members=$(getent group -- "$1" | cut -d : -f 4)
    [ -z "$members" ] || [ "$members" = "$1" ]
}

check_entry() { # PATH: fail if another user owns it or can write to it
    seen=$(stat -c '%u %a %G' -- "$1") || fail "cannot read the permissions of $1"
    uid=${seen%% *} seen=${seen#* }
    mode=${seen%% *} group=${seen#* }
    if [ $((0$mode & 002)) -eq 0 ] && is_own_group "$group"; then mode=$((mode / 100))00; fi
    [ "$uid" = "$(id -u)" ] || [ "$uid" = 0 ] ||
        fail "$1 belongs to user $(login "$uid"), who could replace the files of the run; set log_dir to a directory of $(id -nu) or root, or omit it"
    [ -L "$1" ] || [ $((0$mode & 022)) -eq 0 ] || [ $((0$mode & 01000)) -ne 0 ] ||
        fail "other users can write to $1 (mode $mode) and could replace the files of the run; run chmod go-w $1, or set another log_dir"
}

check_private() { # PATH: check_entry for each existing directory and link of the path, from the top; sets `passed`: the links
    todo=$1 at=/ links=0 passed=''
    check_entry /
    while [ -n "$todo" ]; do
        name=${todo%%/*}
        case $todo in */*) todo=${todo#*/} ;; *) todo='' ;; esac
        case $name in
        '' | .) continue ;;
        ..) at=$(dirname -- "$at") && continue ;;
        esac
        next=${at%/}/$name
        [ -e "$next" ] || [ -L "$next" ] || return 0
        check_entry "$next"
        if [ -L "$next" ]; then
            passed="$passed$next
"
            links=$((links + 1))
            [ "$links" -le 40 ] || fail "$1 goes through more than 40 links"
            target=$(readlink -- "$next")
            case $target in /*) at=/ ;; esac
            todo=$target/$todo
        else
            at=$next
        fi
    done
}

is_ours() { # whether the directory is this run's: this user owns it, and it contains the run's ID
    [ -n "$run" ] && [ -d "$dir" ] && [ ! -L "$dir" ] && [ -O "$dir" ] && [ "$(word "$dir/run")" = "$run" ]
}

is_held() { # whether this run still holds the host
    is_ours && [ ! -e "$dir/leaving" ] && is_alive keeper
}

is_alive() { # keeper|watcher: whether that process of ours still runs; sets `pid`
    pid=$(word "$dir/$1")
    case $pid in '' | *[!0-9]* | 0 | 1) return 1 ;; esac
    [ -O "/proc/$pid" ] && grep -qzxsF -- "$dir/job.sh" "/proc/$pid/cmdline"
}

owned() { # the processes of this run that are not in a container
    [ -n "$run" ] || return 0
    grep -lzxsF "STEELYARD_RUN=$run" /proc/[0-9]*/environ | cut -d / -f 3
}

containers() { # ENGINE [OPTION...]: the containers of this run
    made=$1
    shift
    [ -n "$run" ] && [ -n "$made" ] || return 0
    engine "$made" ps -q --no-trunc --filter "label=steelyard.run=$run" "$@"
}

began() { # PID: its start time in clock ticks
    read -r line < "/proc/$1/stat" || return 1
    set -- ${line##*) }
    echo "${20}"
} 2>/dev/null

mark() { # PID NAME: an argument of a process that holds a host
    tr '\0' '\n' < "/proc/$1/cmdline" | sed -n "s/^steelyard-$2=//p" | head -n 1
} 2>/dev/null

holders() { # SCOPE: the processes that hold this host, of any user
    echo "steelyard-host=$1" | grep -lzxsF -f - /proc/[0-9]*/cmdline | cut -d / -f 3
}

# A process holds a host, not a file: it needs no directory where all users can write, it cannot be left behind, and the
# kernel has its owner. The process that started first holds the host.
take() { # HOLDER ENGINE LEASE SCOPE: prints `swept RUN` per dead run removed, then `taken PID`, or `held` (`twice`: by this run) and the holder
    holder=$1 engine=$2 lease=$3 scope=$4
    parent=$(dirname -- "$dir")
    if is_held; then
        echo taken "$(word "$dir/keeper")"
        return
    fi
    report_holder '' && return
    check_private "$parent" # create nothing on a path that another user can redirect
    sweep
    top=$dir
    while [ ! -e "$(dirname -- "$top")" ]; do top=$(dirname -- "$top"); done
    mkdir -p -- "$parent" 2> /dev/null || {
        unwritable "$parent" "as $(id -nu); set user in the cluster file, or set log_dir"
    }
    check_private "$parent"
    mkdir -- "$dir" 2> /dev/null || {
        [ -e "$dir" ] || [ -L "$dir" ] || { gone "$top" && unwritable "$dir"; }
        what=''
        [ -O "$dir" ] && [ ! -L "$dir" ] && [ -s "$dir/run" ] && what=" for run $(word "$dir/run") on $(word "$dir/host")"
        fail "$dir already exists, created by user $(login "$(stat -c %u -- "$dir")")$what; remove it if it is not needed"
    }
    put $$ "$dir/maker" && put "$top" "$dir/made" && put "$(this_host)" "$dir/host" && put "$engine" "$dir/engine" &&
        put "$script" "$dir/job.sh" && put 0 "$dir/beat" && put "$run" "$dir/run" || { discard && unwritable "$dir"; }
    since=$(date +%s) # before the fork, not after
    setsid sh "$dir/job.sh" keep "$run" "$dir" "$lease" "$engine" "steelyard-host=$scope" "steelyard-run=$run" \
        "steelyard-dir=$dir" "steelyard-holder=$holder" "steelyard-since=$since" < /dev/null > /dev/null 2>&1 &
    left=100
    until is_alive keeper; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { discard && fail "cannot hold the host: the keeper process did not start ($(free "$parent") KiB free in $parent)"; }
        nap
    done
    ours=$pid
    if report_holder "$(began "$pid")" "$pid"; then discard; else echo taken "$ours"; fi
}

this_host() { # identifies it on a file system that several hosts share
    echo "$(uname -n) $(word /etc/machine-id)"
}

report_holder() { # SINCE PID: print another holder of the host that started before that process; fails if no other process does
    for other in $(holders "$scope"); do
        theirs=$(mark "$other" run) then=$(began "$other")
        [ -n "$theirs" ] && [ -n "$then" ] || continue # it has ended in the meantime
        [ "$theirs" = "$run" ] && [ "$(mark "$other" dir)" = "$dir" ] && continue
        [ -n "$1" ] && [ "$then" -gt "$1" ] && continue
        [ -n "$1" ] && [ "$then" -eq "$1" ] && [ "$other" -gt "$2" ] && continue
        if [ "$theirs" = "$run" ]; then echo twice; else echo held; fi
        printf '%s\n' "$theirs" "$(mark "$other" holder)" "$(mark "$other" since)" "$other"
        login "$(stat -c %u -- "/proc/$other" 2>/dev/null)"
        return
    done
    return 1
}

discard() { # undo a take
    is_alive keeper && kill -s KILL -- "-$pid" 2>/dev/null
    rm -rf -- "$dir"
    gone "$top"
}

sweep() { # remove what dead runs of this user left in the same place, for example after a power failure
    for file in "$parent"/*/run; do
        [ -f "$file" ] || continue
        (
            dir=$(dirname -- "$file")
            [ -O "$dir" ] && [ ! -L "$dir" ] || exit 0
            run=$(word "$file")
            is_ours && [ "$(word "$dir/host")" = "$(this_host)" ] || exit 0
            maker=$(word "$dir/maker") # the process that waits for the keeper to start
            [ -n "$maker" ] && [ -O "/proc/$maker" ] && grep -qzxsF -- "$dir" "/proc/$maker/cmdline" && exit 0
            is_alive keeper && exit 0
            program=$(word "$dir/engine")
            halt "$program" 5
            clean "$program" | sed 's/^left/unswept/'
            is_ours || echo "swept $run"
        )
    done
}

keep() { # LEASE ENGINE MARK...: hold the host until the run releases it, SIGTERM, or LEASE seconds without contact from the controller
    lease=$1 program=$2 of_host=$3 of_run=$4 of_dir=$5 of_holder=$6 of_since=$7
    ending=''
    trap 'ending=1' TERM INT HUP
    # A shell that cannot fork exits. This one restarts itself and keeps its PID and start time.
    trap 'exec sh "$dir/job.sh" keep "$run" "$dir" "$lease" "$program" "$of_host" "$of_run" "$of_dir" "$of_holder" "$of_since"' EXIT
    cd /
    put $$ "$dir/keeper"
    last='' quiet=0 misses=0
    while [ "$misses" -lt 60 ]; do # a single failed look does not mean that the run was removed
        sleep 1
        if is_ours; then misses=0; else misses=$((misses + 1)) && continue; fi
        now=$(word "$dir/beat")
        if [ "$now" = "$last" ]; then quiet=$((quiet + 1)); else last=$now quiet=0; fi
        most=$lease
        if [ "$now" = 0 ] && { [ "$lease" -eq 0 ] || [ "$lease" -gt 120 ]; }; then most=120; fi # the controller never sent a beat
        if [ -n "$ending" ] || { [ "$most" -gt 0 ] && [ "$quiet" -ge "$most" ]; }; then
            halt "$program" 5
            clean "$program" # also ends this process, unless something cannot be removed; then try again
            sleep 10
        fi
    done
    trap - EXIT
}

beat() { # COUNT: renew the lease; prints the KiB free for the job's output
    is_ours || fail "the job's files are gone: it was stopped by someone else"
    is_alive keeper || fail "the process that holds the host for this run was killed"
    put "$1" "$dir/beat.new" && mv -f -- "$dir/beat.new" "$dir/beat" 2> /dev/null || {
        rm -f -- "$dir/beat.new"
        echo 0 # out of space, or out of inodes
        return
    }
    free "$dir"
}

gone() { # TOP: remove the parent directories that were created with ours, if they are empty
    at=$dir
    while [ "$at" != "$1" ] && at=$(dirname -- "$at") && rmdir -- "$at" 2>/dev/null; do :; done
}

prepare() { # SECRET FILE ...: create the directory that the program sees, with a copy of each secret
    is_held || fail "this run no longer holds the host"
    # Every user of a container may read this directory; on the host, only this user can get to it.
    { (umask 022 && mkdir -- "$dir/job" "$dir/job/secrets") && mkdir -m 1777 -- "$dir/job/output"; } 2> /dev/null || unwritable "$dir/job"
    while [ $# -gt 1 ]; do
        [ -f "$2" ] || fail "$2 is not a file"
        (umask 022 && head -c 1048577 -- "$2" > "$dir/job/secrets/$1") || fail "cannot read $2"
        [ "$(stat -c %s -- "$dir/job/secrets/$1")" -le 1048576 ] || fail "$2 is larger than 1 MiB"
        shift 2
    done
    is_held || { # the connection broke, and the run has left the host before this command ran
        rm -rf -- "$dir/job"
        fail "this run no longer holds the host"
    }
}

place() { # PATH: device and path in its file system, independent of the mount point
    PLACE=$1 awk '{
        point = $5; root = $4; gsub(/\\040/, " ", point); gsub(/\\040/, " ", root)
        if (point == "/") point = ""
        if (root == "/") root = ""
        if (index(ENVIRON["PLACE"] "/", point "/") == 1 && length(point) >= best) {
            best = length(point); place = $3 ":" root substr(ENVIRON["PLACE"], best + 1)
        }
    } END { print place }' /proc/self/mountinfo
}

is_within() { # INNER OUTER: by name, or by place in the file system
    case $1/ in "${2%/}"/*) return 0 ;; esac
    inner=$(place "$1") outer=$(place "$2")
    [ -n "$outer" ] || return 1
    case ${inner%/}/ in "${outer%/}"/*) return 0 ;; *) return 1 ;; esac
}

check_mounts() { # PATH...: fail if a volume gives the container access to the control directory or to a link on the path to it
    real=$(cd -P -- "$dir" && pwd -P) || fail "cannot enter $dir"
    check_private "$dir"
    for path in "$@"; do
        volume=$(readlink -f -- "$path") || continue # the engine creates what does not exist
        is_within "$real" "$volume" &&
            fail "volume $path contains the control files of the run in $real; set another log_dir, or mount a smaller directory"
        is_within "$volume" "$real" && fail "volume $path is inside the control files of the run in $real; set another log_dir"
        printf '%s' "$passed" | while IFS= read -r link; do
            if is_within "$link" "$volume"; then exit 1; fi
        done || fail "volume $path contains a link to the control files of the run; set log_dir to $(dirname -- "$real")"
    done
}

start() { # COMMAND...: in its own session, so that it survives a lost connection
    is_held || fail "this run no longer holds the host"
    setsid sh "$dir/job.sh" watch "$run" "$dir" "$@" < /dev/null > /dev/null 2>&1 &
    left=100
    until [ -s "$dir/watcher" ]; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "the job did not start ($(free "$dir") KiB free in $dir)"
        nap
    done
}

watch() { # COMMAND...
    cd -- "$dir" || exit 1
    env STEELYARD_RUN="$run" "$@" > log 2>&1 &
    child=$!
    put $$ watcher
    wait "$child"
    ended=$?
    until put "$ended" status.new && mv -f status.new status; do # on a full disk, wait for space or until the run is removed
        is_ours || exit 1
        sleep 1
    done
    while is_ours; do sleep 1; done # stay until the status was read: if this process is gone, it was killed
}

follow() { # OFFSET: print the log from that byte on, until the end
    tail -c "+$(($1 + 1))" -f -- "$dir/log" &
    reading=$!
    watcher=$(word "$dir/watcher")
    while [ ! -e "$dir/status" ] && [ -O "$dir/run" ] && kill -0 "$watcher" 2>/dev/null && kill -0 "$reading" 2>/dev/null; do nap; done
    nap
    kill "$reading" 2>/dev/null
}

rest() { # OFFSET: print the log from that byte to its present end
    tail -c "+$(($1 + 1))" -- "$dir/log"
}

status() { # ENGINE: prints running, unwatched, gone, or the exit status; KiB free; then the state of its containers
    is_ours || { echo gone && return; }
    if [ -s "$dir/status" ]; then
        word "$dir/status"
    elif is_alive watcher; then
        echo running
    else
        word "$dir/status" || echo unwatched
    fi
    free "$dir"
    [ -z "$1" ] && return
    [ -f "$dir/oom" ] && echo 'true - - -' # Podman before 5 reports it only at the start, in this file
    containers=$(containers "$1" -a 2>/dev/null) || { echo silent && return; }
    for container in $containers; do
        engine "$1" inspect --format '{{.State.OOMKilled}} {{.State.ExitCode}} {{.State.Status}} {{.State.Error}}' "$container" || :
    done
}

stopped() { # ENGINE: the processes of the job that are stopped (SIGSTOP, a debugger): PID RANK COMMAND
    containers=$(containers "$1" 2>/dev/null)
    for pid in $(owned) $([ -n "$containers" ] && echo "$containers" | grep -lsF -f - /proc/[0-9]*/cgroup | cut -d / -f 3); do
        read -r line < "/proc/$pid/stat" || continue
        case ${line##*) } in [Tt]*) ;; *) continue ;; esac
        rank=$(tr '\0' '\n' < "/proc/$pid/environ" | sed -n 's/^RANK=//p' | head -n 1)
        echo "$pid ${rank:--} $(tr '\0' ' ' < "/proc/$pid/cmdline" | cut -c 1-200)"
    done 2>/dev/null
}

halt() { # ENGINE GRACE: SIGTERM, then SIGKILL after GRACE seconds
    containers=$(containers "$1") && [ -n "$containers" ] && engine "$1" stop -t "$2" $containers > /dev/null
    pids=$(owned) && [ -n "$pids" ] && kill $pids 2>/dev/null
    left=$(($2 * 5))
    while [ "$left" -gt 0 ] && [ -n "$(owned)" ]; do
        nap
        left=$((left - 1))
    done
    pids=$(owned) && [ -n "$pids" ] && kill -KILL $pids 2>/dev/null
    return 0
}

clean() { # ENGINE: remove all that carries this run's mark; prints what is left
    if ! containers=$(containers "$1" -a 2>/dev/null); then # files and lease stay, so that it can still be stopped
        echo "left engine $("$1" ps -q 2>&1 | tail -n 1)"
        return 0
    fi
    is_ours && put 1 "$dir/leaving"
    others=$(owned) && [ -n "$others" ] && kill -KILL $others 2>/dev/null
    image=''
    for container in $containers; do image=$(engine "$1" inspect --format '{{.Image}}' "$container"); done
    for again in '' 1 2; do # an engine may still create what its client, killed above, requested
        [ -n "$containers" ] && engine "$1" rm -f -v $containers > /dev/null
        [ -z "$1" ] && break
        [ -z "$again" ] && nap
        containers=$(containers "$1" -a 2>/dev/null)
        [ -n "$again" ] && [ -z "$containers" ] && break
    done
    if [ -n "$containers" ]; then # they may use the GPUs: files, lease and host stay ours until they are gone
        echo "left containers" $containers
        rm -f -- "$dir/leaving"
        return 0
    fi
    keeper='' watcher=''
    if is_ours; then
        is_alive keeper && keeper=$pid
        is_alive watcher && watcher=$pid
        top=$(word "$dir/made")
        if ! rm -rf -- "$dir/job" 2>/dev/null && [ -n "$image" ]; then # files of the container's root user
            engine "$1" run --rm --pull never --network none --log-driver none --label "steelyard.run=$run" --user 0:0 \
                --entrypoint rm --volume "$dir/job/output:/output" "$image" -rf /output > /dev/null 2>&1
        fi
        # The directory with the mark is removed last, so that a remainder can still be recognized as ours.
        rm -rf -- "$dir/job" && rm -rf -- "$dir" && gone "$top"
    fi 2>/dev/null
    is_ours && echo "left files $dir" && rm -f -- "$dir/leaving"
    [ -n "$watcher" ] && kill -s KILL -- "-$watcher" 2>/dev/null
    [ -n "$keeper" ] && kill -s KILL -- "-$keeper" 2>/dev/null # last: it may be this process
    return 0
}

"$verb" "$@"
exit $?
