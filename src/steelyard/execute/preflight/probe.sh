# Queries one host in one round trip. Run as `sh -s -- MARK SECONDS [WORD VALUE]...` with this text on stdin.
#
# Each output line of a tool starts with a space, each error line with `!`; only our own lines start with MARK. So a tool
# cannot end its section or start another, whatever it prints. Values come as arguments and stay values.

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

# Ends the last line of a tool, then ends its reader by sending more than it reads: a child that the tool left behind may
# keep the pipe open, so the reader cannot wait for the end of file.
finish() {
    printf '%s\n' "$over"
    head -c "$most" /dev/zero 2>/dev/null
}

# ask NAME COMMAND...: print one section; sets `status` to the exit status of the command, or `absent`.
ask() {
    name=$1
    shift
    printf '%s begin %s\n' "$mark" "$name"
    if ! command -v timeout >/dev/null 2>&1 || ! command -v "$1" >/dev/null 2>&1; then
        status=absent
    else
        result=$(
            exec 5>&1
            {
                {
                    timeout -k 2 "$limit" "$@" </dev/null 2>&3 3>&- 4>&- 5>&-
                    printf '\n%s\n' "$?" >&5
                    (finish >&3) # each in its own shell, because SIGPIPE ends one whose reader has gone
                    (finish)
                } | head -c "$most" | sed -n "/$over\$/{s/$over\$//;/./s/^/ /p;q;};s/^/ /p" >&4
            } 3>&1 | head -c "$most" | sed -n "/$over\$/{s/$over\$//;/./p;q;};p" | tail -c 2000 | sed 's/^/!/'
        )
        status=$(printf '%s\n' "$result" | sed -n '/^[0-9]/p')
        printf '\n' # the output may lack its last newline
        printf '%s\n' "$result" | sed -n '/^!/p'
    fi
    printf '%s end %s %s\n' "$mark" "$name" "$status"
}

# within NAME SCRIPT ARGUMENT...: the same for a few lines of sh, with a time limit in case a file system hangs.
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
for link in *; do printf "%s|%s\n" "$link" "$(cat "$link/operstate" 2>/dev/null)"; done'

# Only interfaces with a device: bridges, bonds and container interfaces come and go.
nic_counters='cd "$1/class/net" && cd .. || exit 1
for link in net/*; do
    [ ! -e "$link/device" ] || grep -H "" "$link"/statistics/* "$link/carrier_down_count"
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

# The same, after the source and the first and last line of the log: a later reading needs them to see whether it is the
# same log and whether lines are missing.
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
elif [ ! -f "$1" ]; then echo "not a file"
elif [ ! -r "$1" ]; then echo unreadable
elif [ ! -s "$1" ]; then echo empty
else echo present; fi
mode=$(stat -L -c %a -- "$1" 2>/dev/null) && printf "mode %s\n" "$mode"
exit 0'

# Names, sizes, and first and last MiB of each file of a directory, a pattern, or a prefix such as Megatron's.
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
    list=$(for file in "$@"; do [ ! -f "$file" ] || printf "%s\n" "$file"; done)
fi
printf "files %s\n" "$(printf "%s" "$list" | grep -c "")"
printf "%s\n" "$list" | head -n "$most" | while IFS= read -r file; do
    [ -n "$file" ] || continue
    [ -r "$file" ] || { printf "unreadable %s\n" "$file"; continue; }
    size=$(stat -L -c %s -- "$file") || exit 1
    first=$(head -c 1048576 -- "$file" | sha256sum) || exit 1
    last=$(tail -c 1048576 -- "$file" | sha256sum) || exit 1
    printf "file %s %s %s %s\n" "$size" "${first%% *}" "${last%% *}" "$file"
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

# With an unknown field or option a tool prints nothing, so newer fields have their own query. A tool that timed out is
# not queried again.
gpu_counters() {
    within gpu_nodes "$nodes"
    ask nvidia_ecc nvidia-smi --format=csv,noheader,nounits \
        --query-gpu=index,pci.bus_id,ecc.errors.corrected.volatile.total,ecc.errors.uncorrected.volatile.total
    if [ "$status" = 0 ]; then
        reasons=clocks_event_reasons_counters
        ask nvidia_throttle nvidia-smi --format=csv,noheader,nounits --query-gpu="index,pci.bus_id,$reasons.sw_power_cap,\
$reasons.sw_thermal_slowdown,$reasons.hw_thermal_slowdown,$reasons.hw_power_brake_slowdown"
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

# For one vendor, so that missing tools are not searched for at every sample.
telemetry() {
    case $1 in
        nvidia)
            ask nvidia_telemetry nvidia-smi --format=csv,noheader,nounits --query-gpu="index,power.draw,memory.used,\
memory.total,utilization.gpu,clocks.sm,clocks.mem,temperature.gpu,power.limit,driver_version"
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
            ask engine "$2" ps --quiet # not `version`, which Podman prints even if it cannot open its store
            ask image "$2" image inspect --format '{{.Id}} {{json .RepoDigests}}' "$3"
            shift
            ;;
        collectives) ask collectives all_reduce_perf -b 64M -e 1G -f 2 -g "$2" ;;
    esac
    shift 2
done
printf '%s end\n' "$mark"
