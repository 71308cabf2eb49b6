# One node's part of a run, on its host: held, prepared, started, watched, ended and cleaned up after.
#
#   sh -c 'script=$(cat) && eval "$script"' sh VERB RUN DIR ...
#
# RUN is the run's id and DIR its control directory here, which only this login can enter. DIR/job is what the training
# program sees: planned files and secrets, which its container cannot write, and DIR/job/output, which it can. Nothing
# that is read or executed here lies where a container or another login can write. Values come as arguments and are
# never made part of this text. What is made here is marked with RUN, and nothing else is removed.

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
    [ "${left:-64}" -lt 64 ] && fail "No space left on the device for $1"
    fail "$1 cannot be written${2:+ $2}"
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

engine() { # COMMAND...: one that hangs holds nothing of ours for ever
    timeout 100 "$@"
}

is_own_group() { # GROUP: whether it is this login's alone, as umask 002 takes it
    [ "$1" = "$(id -nu)" ] && [ "$1" = "$(id -ng)" ] || return 1
    members=$(getent group -- "$1" | cut -d : -f 4)
    [ -z "$members" ] || [ "$members" = "$1" ]
}

check_entry() { # PATH: stop where another login owns it or can write into it
    seen=$(stat -c '%u %a %G' -- "$1") || fail "$1 cannot be looked at"
    uid=${seen%% *} seen=${seen#* }
    mode=${seen%% *} group=${seen#* }
    if [ $((0$mode & 002)) -eq 0 ] && is_own_group "$group"; then mode=$((mode / 100))00; fi
    [ "$uid" = "$(id -u)" ] || [ "$uid" = 0 ] ||
        fail "$1 belongs to login $(login "$uid"), who could replace the files of the run; set log_dir to a directory of $(id -nu) or root, or leave it out"
    [ -L "$1" ] || [ $((0$mode & 022)) -eq 0 ] || [ $((0$mode & 01000)) -ne 0 ] ||
        fail "$1 can be written by other logins (mode $mode), who could replace the files of the run; run chmod go-w $1, or set another log_dir"
}

check_private() { # PATH: every directory and link on the way there, as far as it exists, from the top down; `passed`: the links
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
            [ "$links" -le 40 ] || fail "$1 leads through too many links"
            target=$(readlink -- "$next")
            case $target in /*) at=/ ;; esac
            todo=$target/$todo
        else
            at=$next
        fi
    done
}

is_ours() { # whether the directory is this run's: this login made it, and it says so
    [ -n "$run" ] && [ -d "$dir" ] && [ ! -L "$dir" ] && [ -O "$dir" ] && [ "$(word "$dir/run")" = "$run" ]
}

is_held() { # whether this run still holds the host
    is_ours && [ ! -e "$dir/leaving" ] && is_alive keeper
}

is_alive() { # keeper|watcher: whether that process of ours still runs; `pid` is its number
    pid=$(word "$dir/$1")
    case $pid in '' | *[!0-9]* | 0 | 1) return 1 ;; esac
    [ -O "/proc/$pid" ] && grep -qzxsF -- "$dir/job.sh" "/proc/$pid/cmdline"
}

owned() { # the processes of this run that are not in a container
    [ -n "$run" ] || return 0
    grep -lzxsF "STEELYARD_RUN=$run" /proc/[0-9]*/environ | cut -d / -f 3
}

boxes() { # ENGINE [OPTION...]: the containers of this run
    made=$1
    shift
    [ -n "$run" ] && [ -n "$made" ] || return 0
    engine "$made" ps -q --no-trunc --filter "label=steelyard.run=$run" "$@"
}

began() { # PID: when it began, in the kernel's ticks
    read -r line < "/proc/$1/stat" || return 1
    set -- ${line##*) }
    echo "${20}"
} 2>/dev/null

mark() { # PID NAME: what a process that holds a host was told of its run
    tr '\0' '\n' < "/proc/$1/cmdline" | sed -n "s/^steelyard-$2=//p" | head -n 1
} 2>/dev/null

holders() { # SCOPE: the processes that hold this host, whoever started them: the kernel says who lives and of which login
    echo "steelyard-host=$1" | grep -lzxsF -f - /proc/[0-9]*/cmdline | cut -d / -f 3
}

# A host is held by a process and not by a file: it needs no place where every login may write, it cannot be left over,
# and the kernel vouches for its owner. The one that began first holds the host.
take() { # HOLDER ENGINE LEASE SCOPE: `swept RUN` for what a dead run left, then `taken PID`, or `held` (`twice`: by this run) and who has it
    holder=$1 engine=$2 lease=$3 scope=$4
    parent=$(dirname -- "$dir")
    if is_held; then
        echo taken "$(word "$dir/keeper")"
        return
    fi
    report_holder '' && return
    check_private "$parent" # nothing is made where somebody else decides what it leads to
    sweep
    top=$dir
    while [ ! -e "$(dirname -- "$top")" ]; do top=$(dirname -- "$top"); done
    mkdir -p -- "$parent" 2> /dev/null || {
        unwritable "$parent" "by $(id -nu); name the login as user in the cluster file, or set log_dir"
    }
    check_private "$parent"
    mkdir -- "$dir" 2> /dev/null || {
        [ -e "$dir" ] || [ -L "$dir" ] || { gone "$top" && unwritable "$dir"; }
        what=''
        [ -O "$dir" ] && [ ! -L "$dir" ] && what=" of run $(word "$dir/run") on $(word "$dir/host")"
        fail "$dir is there already, made by login $(login "$(stat -c %u -- "$dir")")$what; if nobody needs it, rm -r it"
    }
    put $$ "$dir/maker" && put "$top" "$dir/made" && put "$(this_host)" "$dir/host" && put "$engine" "$dir/engine" &&
        put "$script" "$dir/job.sh" && put 0 "$dir/beat" && put "$run" "$dir/run" || { discard && unwritable "$dir"; }
    since=$(date +%s) # before the fork: a holder counts from when it can be seen
    setsid sh "$dir/job.sh" keep "$run" "$dir" "$lease" "$engine" "steelyard-host=$scope" "steelyard-run=$run" \
        "steelyard-dir=$dir" "steelyard-holder=$holder" "steelyard-since=$since" < /dev/null > /dev/null 2>&1 &
    left=100
    until is_alive keeper; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || { discard && fail "it could not be held ($(free "$parent") KiB are free)"; }
        nap
    done
    ours=$pid
    if report_holder "$(began "$pid")" "$pid"; then discard; else echo taken "$ours"; fi
}

this_host() { # what tells it from others on a shared file system
    echo "$(uname -n) $(word /etc/machine-id)"
}

report_holder() { # SINCE PID: say who else holds the host and began before that process; fails where nobody does
    for other in $(holders "$scope"); do
        theirs=$(mark "$other" run) then=$(began "$other")
        [ -n "$theirs" ] && [ -n "$then" ] || continue # it has ended meanwhile; the kernel forgets its words first
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

sweep() { # remove what dead runs of this login left in the same place, after a power cut for instance
    for file in "$parent"/*/run; do
        [ -f "$file" ] || continue
        (
            dir=$(dirname -- "$file")
            [ -O "$dir" ] && [ ! -L "$dir" ] || exit 0
            run=$(word "$file")
            is_ours && [ "$(word "$dir/host")" = "$(this_host)" ] || exit 0
            maker=$(word "$dir/maker") # who waits for the keeper to begin
            [ -n "$maker" ] && [ -O "/proc/$maker" ] && grep -qzxsF -- "$dir" "/proc/$maker/cmdline" && exit 0
            is_alive keeper && exit 0
            program=$(word "$dir/engine")
            halt "$program" 5
            clean "$program" | sed 's/^left/unswept/'
            is_ours || echo "swept $run"
        )
    done
}

keep() { # LEASE ENGINE MARK...: hold the host until the run lets go, is asked to end (TERM), or is not asked after for LEASE
    lease=$1 program=$2 of_host=$3 of_run=$4 of_dir=$5 of_holder=$6 of_since=$7
    ending=''
    trap 'ending=1' TERM INT HUP
    # A shell that cannot fork ends: this one goes on as itself, with its number and its place in line.
    trap 'exec sh "$dir/job.sh" keep "$run" "$dir" "$lease" "$program" "$of_host" "$of_run" "$of_dir" "$of_holder" "$of_since"' EXIT
    cd /
    put $$ "$dir/keeper"
    last='' quiet=0 misses=0
    while [ "$misses" -lt 60 ]; do # one look that fails is not a run that was removed
        sleep 1
        if is_ours; then misses=0; else misses=$((misses + 1)) && continue; fi
        now=$(word "$dir/beat")
        if [ "$now" = "$last" ]; then quiet=$((quiet + 1)); else last=$now quiet=0; fi
        most=$lease
        if [ "$now" = 0 ] && { [ "$lease" -eq 0 ] || [ "$lease" -gt 120 ]; }; then most=120; fi # who took the host never came back
        if [ -n "$ending" ] || { [ "$most" -gt 0 ] && [ "$quiet" -ge "$most" ]; }; then
            halt "$program" 5
            clean "$program" # which ends us too, unless something could not be removed: then it is tried again
            sleep 10
        fi
    done
    trap - EXIT
}

beat() { # COUNT: say that somebody still asks after the job; KiB free for what it prints
    is_ours || fail "the files of the job are gone: it was ended from elsewhere"
    is_alive keeper || fail "the process that holds the host for this run was killed"
    put "$1" "$dir/beat.new" && mv -f -- "$dir/beat.new" "$dir/beat" 2> /dev/null || {
        rm -f -- "$dir/beat.new"
        echo 0 # KiB, or file entries: there is no room for what it prints
        return
    }
    free "$dir"
}

gone() { # TOP: the directories above ours that were made with it, as far as nobody else uses them
    at=$dir
    while [ "$at" != "$1" ] && at=$(dirname -- "$at") && rmdir -- "$at" 2>/dev/null; do :; done
}

prepare() { # SECRET FILE ...: what the program sees, with a copy of each secret
    is_held || fail "the host is no longer held by this run"
    # Any user of a container may read what is in there; on the host only this login gets as far as there.
    { (umask 022 && mkdir -- "$dir/job" "$dir/job/secrets") && mkdir -m 1777 -- "$dir/job/output"; } 2> /dev/null || unwritable "$dir/job"
    while [ $# -gt 1 ]; do
        [ -f "$2" ] || fail "$2 is not a file"
        (umask 022 && head -c 1048577 -- "$2" > "$dir/job/secrets/$1") || fail "$2 cannot be read"
        [ "$(stat -c %s -- "$dir/job/secrets/$1")" -le 1048576 ] || fail "$2 is larger than 1 MiB"
        shift 2
    done
    is_held || { # asked over a link that broke, and come to it after the run had left
        rm -rf -- "$dir/job"
        fail "the host is no longer held by this run"
    }
}

place() { # PATH: device and path in its file system, the same wherever that is mounted
    PLACE=$1 awk '{
        point = $5; root = $4; gsub(/\\040/, " ", point); gsub(/\\040/, " ", root)
        if (point == "/") point = ""
        if (root == "/") root = ""
        if (index(ENVIRON["PLACE"] "/", point "/") == 1 && length(point) >= best) {
            best = length(point); found = $3 ":" root substr(ENVIRON["PLACE"], best + 1)
        }
    } END { print found }' /proc/self/mountinfo
}

is_within() { # INNER OUTER: by name, or by where they lie
    case $1/ in "${2%/}"/*) return 0 ;; esac
    inner=$(place "$1") outer=$(place "$2")
    [ -n "$outer" ] || return 1
    case ${inner%/}/ in "${outer%/}"/*) return 0 ;; *) return 1 ;; esac
}

check_mounts() { # PATH...: stop where a volume shows the container the control directory or a link on the way there
    real=$(cd -P -- "$dir" && pwd -P) || fail "$dir cannot be entered"
    check_private "$dir"
    for path in "$@"; do
        volume=$(readlink -f -- "$path") || continue # the engine makes what is not there
        is_within "$real" "$volume" &&
            fail "volume $path would show the container the control files of the run in $real; set another log_dir, or mount less"
        is_within "$volume" "$real" && fail "volume $path lies in the control files of the run in $real; set another log_dir"
        printf '%s' "$passed" | while IFS= read -r link; do
            if is_within "$link" "$volume"; then exit 1; fi
        done || fail "volume $path holds a link that leads to the control files of the run; set log_dir to $(dirname -- "$real")"
    done
}

start() { # COMMAND...: in a session of its own, so that it outlives the link
    is_held || fail "the host is no longer held by this run"
    setsid sh "$dir/job.sh" watch "$run" "$dir" "$@" < /dev/null > /dev/null 2>&1 &
    left=100
    until [ -s "$dir/watcher" ]; do
        left=$((left - 1))
        [ "$left" -gt 0 ] || fail "it did not start ($(free "$dir") KiB are free)"
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
    until put "$ended" status.new && mv -f status.new status; do # a full disk, until there is room or the run is removed
        is_ours || exit 1
        sleep 1
    done
    while is_ours; do sleep 1; done # until it was fetched: whoever looks sees that it ended and was not killed
}

follow() { # OFFSET: the log from there on, until the end
    tail -c "+$(($1 + 1))" -f -- "$dir/log" &
    reading=$!
    watcher=$(word "$dir/watcher")
    while [ ! -e "$dir/status" ] && [ -O "$dir/run" ] && kill -0 "$watcher" 2>/dev/null && kill -0 "$reading" 2>/dev/null; do nap; done
    nap
    kill "$reading" 2>/dev/null
}

rest() { # OFFSET: the log from there to where it is now
    tail -c "+$(($1 + 1))" -- "$dir/log"
}

status() { # ENGINE: running, unwatched, gone, or the exit status; KiB free; then what the engine says of its containers
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
    [ -f "$dir/oom" ] && echo 'true - - -' # Podman before 5 says it where it was started, and not when asked
    found=$(boxes "$1" -a 2>/dev/null) || { echo silent && return; }
    for box in $found; do
        engine "$1" inspect --format '{{.State.OOMKilled}} {{.State.ExitCode}} {{.State.Status}} {{.State.Error}}' "$box" || :
    done
}

stopped() { # ENGINE: the processes of the job that are stopped (SIGSTOP, a debugger): PID RANK COMMAND
    boxes=$(boxes "$1" 2>/dev/null)
    for pid in $(owned) $([ -n "$boxes" ] && echo "$boxes" | grep -lsF -f - /proc/[0-9]*/cgroup | cut -d / -f 3); do
        read -r line < "/proc/$pid/stat" || continue
        case ${line##*) } in [Tt]*) ;; *) continue ;; esac
        rank=$(tr '\0' '\n' < "/proc/$pid/environ" | sed -n 's/^RANK=//p' | head -n 1)
        echo "$pid ${rank:--} $(tr '\0' ' ' < "/proc/$pid/cmdline" | cut -c 1-200)"
    done 2>/dev/null
}

halt() { # ENGINE GRACE: asked first, then made to
    found=$(boxes "$1") && [ -n "$found" ] && engine "$1" stop -t "$2" $found > /dev/null
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
    if ! found=$(boxes "$1" -a 2>/dev/null); then # files and lease stay, so that it can still be ended
        echo "left engine $("$1" ps -q 2>&1 | tail -n 1)"
        return 0
    fi
    is_ours && put 1 "$dir/leaving"
    others=$(owned) && [ -n "$others" ] && kill -KILL $others 2>/dev/null
    image=''
    for box in $found; do image=$(engine "$1" inspect --format '{{.Image}}' "$box"); done
    for again in '' 1 2; do # an engine may still make what its client, killed above, asked for
        [ -n "$found" ] && engine "$1" rm -f -v $found > /dev/null
        [ -z "$1" ] && break
        [ -z "$again" ] && nap
        found=$(boxes "$1" -a 2>/dev/null)
        [ -n "$again" ] && [ -z "$found" ] && break
    done
    if [ -n "$found" ]; then # they may hold the GPUs: files, lease and host stay ours until they are gone
        echo "left containers" $found
        rm -f -- "$dir/leaving"
        return 0
    fi
    keeper='' watcher=''
    if is_ours; then
        is_alive keeper && keeper=$pid
        is_alive watcher && watcher=$pid
        top=$(word "$dir/made")
        if ! rm -rf -- "$dir/job" 2>/dev/null && [ -n "$image" ]; then # of its container's root, which this login is not
            engine "$1" run --rm --pull never --network none --log-driver none --label "steelyard.run=$run" --user 0:0 \
                --entrypoint rm --volume "$dir/job/output:/output" "$image" -rf /output > /dev/null 2>&1
        fi
        # The directory goes last, with its mark: what could not be removed is still known to be ours.
        rm -rf -- "$dir/job" && rm -rf -- "$dir" && gone "$top"
    fi 2>/dev/null
    is_ours && echo "left files $dir" && rm -f -- "$dir/leaving"
    [ -n "$watcher" ] && kill -s KILL -- "-$watcher" 2>/dev/null
    [ -n "$keeper" ] && kill -s KILL -- "-$keeper" 2>/dev/null # last: it may be us
    return 0
}

"$verb" "$@"
exit $?
