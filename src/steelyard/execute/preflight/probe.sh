# Asks one host everything in one round trip. Run as `sh -s -- MARK SECONDS [WORD VALUE]...`, this text on stdin.
#
# What a tool prints stands behind a space, what it complains of behind a `!`, each line; only our own lines begin with
# MARK. So no tool can end its section or begin another, whatever it prints. Values come as arguments and stay values.

LC_ALL=C
export LC_ALL
PATH=$PATH:/usr/sbin:/sbin:/opt/rocm/bin:/usr/local/cuda/bin:/usr/local/bin:/opt/rccl-tests/build:/opt/nccl-tests/build
export PATH
mark=$1
limit=$2
shift 2
most=4194304
over="$mark over"
exec 4>&1

# Ends the line of a tool that has ended, and then what reads it: with more than it reads. So it waits for no end of
# file, which a child that the tool left behind may hold back.
finish() {
    printf '%s\n' "$over"
    head -c "$most" /dev/zero 2>/dev/null
}

# ask NAME COMMAND...: one section; `status` is left as the command's, or `absent`.
ask() {
    name=$1
    shift
    printf '%s begin %s\n' "$mark" "$name"
    if ! command -v timeout >/dev/null 2>&1 || ! command -v "$1" >/dev/null 2>&1; then
        status=absent
    else
        said=$(
            exec 5>&1
            {
                {
                    timeout -k 2 "$limit" "$@" </dev/null 2>&3 3>&- 4>&- 5>&-
                    printf '\n%s\n' "$?" >&5
                    (finish >&3) # each in a shell of its own: one whose reader has gone is ended
                    (finish)
                } | head -c "$most" | sed -n "/$over\$/{s/$over\$//;/./s/^/ /p;q;};s/^/ /p" >&4
            } 3>&1 | head -c "$most" | sed -n "/$over\$/{s/$over\$//;/./p;q;};p" | tail -c 2000 | sed 's/^/!/'
        )
        status=$(printf '%s\n' "$said" | sed -n '/^[0-9]/p')
        printf '\n' # what it printed may lack its last newline
        printf '%s\n' "$said" | sed -n '/^!/p'
    fi
    printf '%s end %s %s\n' "$mark" "$name" "$status"
}

# within NAME SCRIPT ARGUMENT...: the same for a few lines of sh, so that a file system that hangs is left behind.
within() {
    name=$1
    script=$2
    shift 2
    ask "$name" sh -c "$script" sh "$@"
}

nodes='for node in /dev/kfd /dev/nvidia[0-9]*; do [ ! -e "$node" ] || printf "%s\n" "$node"; done'

listening='for table in /proc/net/tcp /proc/net/tcp6; do [ ! -r "$table" ] || cat "$table" || exit 1; done |
    awk "\$4 == \"0A\" { print \$2 }"
[ -r /proc/net/tcp ]'

versions='for file in /sys/module/nvidia/version /sys/module/amdgpu/version /opt/rocm/.info/version; do
    [ ! -r "$file" ] || printf "%s %s\n" "$file" "$(head -n 1 "$file")"
done'

rdma='cd /sys/class/infiniband 2>/dev/null || exit 0
for port in */ports/*; do
    [ -r "$port/state" ] || continue
    printf "port %s|%s|%s|%s\n" "$port" "$(cat "$port/state")" "$(cat "$port/link_layer")" "$(cat "$port/rate")"
    for at in 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        gid=$(cat "$port/gids/$at" 2>/dev/null) || continue
        case $gid in
            0000:0000:0000:0000:0000:0000:0000:0000 | "") continue ;;
        esac
        printf "gid %s|%s|%s|%s\n" "$port" "$at" "$(cat "$port/gid_attrs/types/$at" 2>/dev/null)" "$gid"
    done
done'

links='cd /sys/class/net || exit 1
for one in *; do printf "%s|%s\n" "$one" "$(cat "$one/operstate" 2>/dev/null)"; done'

# What has a device behind it: bridges, bonds and the ends of containers come and go.
nic_counters='cd "$1/class/net" && cd .. || exit 1
for one in net/*; do
    [ ! -e "$one/device" ] || grep -H "" "$one"/statistics/* "$one/carrier_down_count"
done
[ ! -d infiniband ] || grep -H "" infiniband/*/ports/*/counters/* infiniband/*/ports/*/hw_counters/*
exit 0'

limits='printf "memlock %s\nnofile %s\n" "$(ulimit -l)" "$(ulimit -n)"'

whole_log='source=dmesg
log=$(dmesg 2>&1) || {
    source=journalctl
    reason=$log
    log=$(journalctl -k -b -q --no-pager 2>/dev/null) && [ -n "$log" ] || { printf "%s\n" "$reason" >&2; exit 1; }
}
[ -n "$log" ] || { echo "the kernel log is empty" >&2; exit 1; }'

kernel_log="$whole_log"'
printf "%s\n" "$log" | grep -aiE -e "$1" | tail -n 2000
exit 0'

# The same, after who told it, which line was its first and which its last: whether a later look reads the same log, and
# still sees where an earlier one ended.
kernel_log_and_ends="$whole_log"'
printf "%s\n" "$source"
printf "%s\n" "$log" | sed -n "1p"
printf "%s\n" "$log" | sed -n "\$p"
printf "%s\n" "$log" | grep -aiE -e "$1" | tail -n 2000
exit 0'

room='at=$1
while [ ! -e "$at" ] && [ "$at" != / ] && [ "$at" != . ]; do at=$(dirname -- "$at"); done
if [ -d "$at" ] && [ -w "$at" ]; then echo writable; else echo closed; fi
df -Pk -- "$at"'

volume='if [ -e "$1" ]; then echo there; else echo missing; fi'

secret='if [ ! -e "$1" ]; then echo missing
elif [ ! -f "$1" ]; then echo "no file"
elif [ ! -r "$1" ]; then echo unreadable
elif [ ! -s "$1" ]; then echo empty
else echo present; fi
mode=$(stat -L -c %a -- "$1" 2>/dev/null) && printf "mode %s\n" "$mode"
exit 0'

# Names, sizes, and the first and last MiB of each file: of a directory, of a pattern, or of a prefix such as Megatron's.
fingerprint='path=$1
most=$2
if [ -d "$path" ]; then
    cd -- "$path" || exit 1
    list=$(find . -type f | sort) || exit 1
elif [ -e "$path" ]; then
    list=$path
else
    IFS=
    case $path in
        *[*?[]*) set -- $path ;;
        *) set -- "$path"* ;;
    esac
    [ -e "$1" ] || { echo missing; exit 0; }
    list=$(for one in "$@"; do [ ! -f "$one" ] || printf "%s\n" "$one"; done)
fi
printf "files %s\n" "$(printf "%s" "$list" | grep -c "")"
printf "%s\n" "$list" | head -n "$most" | while IFS= read -r one; do
    [ -n "$one" ] || continue
    [ -r "$one" ] || { printf "unreadable %s\n" "$one"; continue; }
    size=$(stat -L -c %s -- "$one") || exit 1
    first=$(head -c 1048576 -- "$one" | sha256sum) || exit 1
    last=$(tail -c 1048576 -- "$one" | sha256sum) || exit 1
    printf "file %s %s %s %s\n" "$size" "${first%% *}" "${last%% *}" "$one"
done'

gpus() {
    within gpu_nodes "$nodes"
    within versions "$versions"
    ask nvidia_gpus nvidia-smi \
        --query-gpu=index,uuid,name,driver_version,memory.used,utilization.gpu --format=csv,noheader,nounits
    if [ "$status" = 0 ]; then
        ask nvidia_processes nvidia-smi \
            --query-compute-apps=gpu_uuid,pid,process_name --format=csv,noheader
        ask nvidia_summary nvidia-smi
    fi
    ask amd_list amd-smi list --json
    if [ "$status" = 0 ]; then
        ask amd_static amd-smi static --asic --json
        ask amd_metric amd-smi metric --usage --mem-usage --json
        ask amd_processes amd-smi process --json
        ask amd_version amd-smi version --json
    else
        ask rocm_gpus rocm-smi --showproductname --showuse --showmeminfo vram --showdriverversion --json
        [ "$status" != 0 ] || ask rocm_processes rocm-smi --showpids --json
    fi
}

# A field or an option that a version does not know costs the whole answer, so what came later is asked apart. A tool
# that hung is not asked again.
gpu_counters() {
    within gpu_nodes "$nodes"
    ask nvidia_ecc nvidia-smi --format=csv,noheader,nounits \
        --query-gpu=index,pci.bus_id,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total
    if [ "$status" = 0 ]; then
        held=clocks_event_reasons_counters
        ask nvidia_throttle nvidia-smi --format=csv,noheader,nounits --query-gpu="index,pci.bus_id,$held.sw_power_cap,\
$held.sw_thermal_slowdown,$held.hw_thermal_slowdown,$held.hw_power_brake_slowdown"
    fi
    ask amd_ecc amd-smi metric --ecc --json
    case $status in
        0)
            ask amd_throttle amd-smi metric --throttle --json
            case $status in 0 | 124 | 137) ;; *) ask amd_throttle amd-smi metric --violation --json ;; esac
            ;;
        124 | 137) ;;
        *) ask rocm_ras rocm-smi --showrasinfo all ;;
    esac
}

host_load='cat /proc/loadavg && grep -E "^(MemTotal|MemAvailable):" /proc/meminfo && grep -c "^processor" /proc/cpuinfo'

# Of one vendor: whose tool is not there is not looked for at every sample.
telemetry() {
    case $1 in
        nvidia)
            ask nvidia_telemetry nvidia-smi --format=csv,noheader,nounits --query-gpu="index,power.draw,memory.used,\
memory.total,utilization.gpu,clocks.sm,clocks.mem,temperature.gpu"
            ;;
        amd)
            ask amd_telemetry amd-smi metric --power --mem-usage --usage --clock --temperature --json
            [ "$status" = 0 ] || ask rocm_telemetry rocm-smi --showpower --showuse --showmeminfo vram --showtemp --json
            ;;
        *) within host_load "$host_load" ;;
    esac
}

while [ $# -ge 2 ]; do
    case $1 in
        gpus) gpus ;;
        telemetry) telemetry "$2" ;;
        room) within "room_$2" "$room" "$3" && shift ;;
        ports) within ports "$listening" ;;
        network) within rdma "$rdma" && within links "$links" ;;
        limits) within limits "$limits" ;;
        kernel_log) within kernel_log "$kernel_log" "$2" ;;
        kernel_log_and_ends) within kernel_log_and_ends "$kernel_log_and_ends" "$2" ;;
        gpu_counters) gpu_counters ;;
        nic_counters) within nic_counters "$nic_counters" "$2" ;;
        volume) within "volume_$2" "$volume" "$3" && shift ;;
        secret) within "secret_$2" "$secret" "$3" && shift ;;
        data) within data "$fingerprint" "$2" 64 ;;
        image)
            ask engine "$2" ps --quiet # not its version, which Podman tells also where its store cannot be opened
            ask image "$2" image inspect --format '{{.Id}} {{json .RepoDigests}}' "$3"
            shift
            ;;
        collectives) ask collectives all_reduce_perf -b 64M -e 1G -f 2 -g "$2" ;;
    esac
    shift 2
done
printf '%s end\n' "$mark"
