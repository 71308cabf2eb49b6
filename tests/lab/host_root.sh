#!/bin/sh
# Builds the root of one host inside fresh namespaces, then becomes the host's first process.
# usage: host_root.sh NAME SEED ROOT PYTHON DEVICES SHARED...
set -eu
name=$1 seed=$2 root=$3 python=$4 devices=$5
shift 5
# The old /proc is still in place, so this is our number outside.
read -r pid_outside _ </proc/self/stat

mount --rbind / "$root"
findmnt -rno TARGET -R "$root" | while read -r each; do
    mount -o remount,bind,ro "$each"
done

own() { mount -t tmpfs -o "size=$2,mode=$3" "$name" "$root/$1"; }
own etc 64m 755
own tmp 1536m 1777
own run 64m 755
own srv 2g 755
own root 1536m 700
own home 64m 755
own var/tmp 1536m 1777
own var/log 64m 755
own dev 1m 755

cp -a /etc/. "$root/etc"
cp "$seed/hosts" "$root/etc/hosts"
echo "$name" >"$root/etc/hostname"
: >"$root/etc/resolv.conf"
mkdir "$root/run/sshd" "$root/run/lab" "$root/run/lock"
cp -r "$seed/." "$root/run/lab"
mkdir -m 700 "$root/root/.ssh"
cp "$seed/authorized_keys" "$root/root/.ssh/authorized_keys"
# A login that is not root and may use the engine, and one that may do nothing.
for each in trainer:4201 mallory:4202; do
    echo "${each%:*}:x:${each#*:}:${each#*:}::/home/${each%:*}:/bin/sh" >>"$root/etc/passwd"
    echo "${each%:*}:x:${each#*:}:" >>"$root/etc/group"
    echo "${each%:*}:*:19000:0:99999:7:::" >>"$root/etc/shadow"
    mkdir "$root/home/${each%:*}"
done
sed -i 's/^docker:.*/&trainer/' "$root/etc/group"
mkdir -m 700 "$root/home/trainer/.ssh"
cp "$seed/authorized_keys" "$root/home/trainer/.ssh/authorized_keys"
chown -R 4201:4201 "$root/home/trainer"
chown 4202:4202 "$root/home/mallory"

mount -t proc proc "$root/proc"
mount -t sysfs sysfs "$root/sys"
mount --rbind /sys/fs/cgroup "$root/sys/fs/cgroup"

device() { mkdir -p "$root/dev/${1%/*}" && mknod -m 666 "$root/dev/$1" c "$2" "$3"; }
device ./null 1 3
device ./zero 1 5
device ./full 1 7
device ./random 1 8
device ./urandom 1 9
device ./tty 5 0
for each in $devices; do
    device "./$each" 1 3
done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for each in 0:stdin 1:stdout 2:stderr; do
    ln -s "/proc/self/fd/${each%:*}" "$root/dev/${each#*:}"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts "$root/dev/pts"
own dev/shm 1g 1777

# What tests need may lie below a folder that is now the host's own.
for each in "$@"; do
    mkdir -p "$root$each"
    mount --bind "$each" "$root$each"
    mount -o remount,bind,ro "$root$each"
done

hostname "$name"
cd "$root"
pivot_root . .
umount -l .
cd /
exec "$python" -I -S /run/lab/first_process.py "$pid_outside"
