#!/bin/sh
# Root filesystem of a container host: a server that already runs an operating system and is reached by SSH.
# usage: build.sh OUTPUT_DIRECTORY   (makes OUTPUT_DIRECTORY/root)
. "$(dirname "$0")/../common.sh"

output=$1
root=$output/root

bootstrap "$root" "$(grep -v '^#' "$(dirname "$0")/packages.txt" | paste -sd, -)"

# Units that only make sense on a machine with hardware, or that would reach outside.
for unit in systemd-timesyncd.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer \
    dpkg-db-backup.timer logrotate.timer man-db.timer systemd-networkd-wait-online.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
# Containers are started by whoever installs Kubernetes, with a configuration of their own.
rm -f "$root/etc/systemd/system/multi-user.target.wants/containerd.service"
ln -sf /lib/systemd/system/systemd-networkd.service "$root/etc/systemd/system/multi-user.target.wants/systemd-networkd.service"

cp "$(dirname "$0")/sshd.conf" "$root/etc/ssh/sshd_config.d/lab.conf"
mkdir -p "$root/etc/systemd/journald.conf.d"
cp "$(dirname "$0")/journald.conf" "$root/etc/systemd/journald.conf.d/lab.conf"

chroot "$root" useradd --create-home --shell /bin/bash hagane
printf 'hagane ALL=(ALL) NOPASSWD:ALL\n' >"$root/etc/sudoers.d/hagane"
chmod 0440 "$root/etc/sudoers.d/hagane"

install -m 0755 "$(dirname "$0")/lab-view" "$root/usr/local/sbin/lab-view"
install -m 0644 "$(dirname "$0")/lab-view.service" "$root/etc/systemd/system/lab-view.service"
mkdir -p "$root/etc/systemd/system/sysinit.target.wants" "$root/etc/lab/proc"
ln -sf ../lab-view.service "$root/etc/systemd/system/sysinit.target.wants/lab-view.service"
