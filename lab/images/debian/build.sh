#!/bin/sh
# Full Debian disk for virtual machines: boot loader, cloud-init, sshd, python3.
# usage: build.sh OUTPUT_DIRECTORY   (makes OUTPUT_DIRECTORY/debian.qcow2)
. "$(dirname "$0")/../common.sh"

output=$1
recipe=$(dirname "$0")
root=$output/root

bootstrap "$root" "$(grep -v '^#' "$recipe/packages.txt" | paste -sd, -)"

cp "$recipe/cloud.cfg" "$root/etc/cloud/cloud.cfg.d/99-lab.cfg"
printf 'LABEL=root / ext4 defaults 0 1\n' >"$root/etc/fstab"
printf 'debian\n' >"$root/etc/hostname"
for unit in systemd-timesyncd.service apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer e2scrub_reap.service \
    fstrim.timer dpkg-db-backup.timer systemd-networkd-wait-online.service; do
    ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
chroot "$root" systemctl enable --quiet systemd-networkd.service systemd-resolved.service

# Only what a virtio machine needs to find its root: a small initramfs boots seconds faster without hardware acceleration.
cp "$recipe/initramfs.conf" "$root/etc/initramfs-tools/conf.d/lab"
cat "$recipe/modules" >>"$root/etc/initramfs-tools/modules"
chroot "$root" update-initramfs -u -k all

mkdir -p "$root/boot/grub"
cp "$recipe/grub.cfg" "$root/boot/grub/grub.cfg"
write_disk "$root" "$output/debian.qcow2" 3072
rm -rf "$root"
