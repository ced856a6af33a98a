#!/bin/sh
# Smallest virtual machine that behaves like a cloud image: a kernel and a busybox initramfs on a bootable disk.
# usage: build.sh OUTPUT_DIRECTORY   (makes tiny.qcow2, and vmlinuz and initrd.img beside it for the KVM probe)
. "$(dirname "$0")/../common.sh"

output=$1
recipe=$(dirname "$0")
tree=$output/tree
initramfs=$output/initramfs

kernel_package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: *\(linux-image-.*\)/\1/p' | head -n 1)
unpack_packages "$tree" "$kernel_package" busybox-static
busybox=$tree/bin/busybox
version=$(ls "$tree/lib/modules")

mkdir -p "$initramfs/bin" "$initramfs/proc" "$initramfs/sys" "$initramfs/dev" "$initramfs/mnt" "$initramfs/tmp" \
    "$initramfs/run" "$initramfs/etc/acpi/PWRF" "$initramfs/usr/bin"
cp "$busybox" "$initramfs/bin/busybox"
ln -s /bin/busybox "$initramfs/usr/bin/env"
for applet in $("$busybox" --list); do
    [ "$applet" = busybox ] || ln -s busybox "$initramfs/bin/$applet"
done
install -m 0755 "$recipe/init" "$initramfs/init"
install -m 0755 "$recipe/udhcpc-script" "$initramfs/etc/udhcpc-script"
install -m 0755 "$recipe/power-button" "$initramfs/etc/acpi/PWRF/00000080"

# Only the modules that init loads, with all that they need.
"$busybox" depmod -b "$tree" "$version"
copy_module() {
    line=$(grep "/$(printf '%s' "$1" | sed 's/_/[-_]/g')\.ko:" "$tree/lib/modules/$version/modules.dep") || { echo "no kernel module $1" >&2; exit 1; }
    for file in $(printf '%s\n' "$line" | tr -d ':'); do
        mkdir -p "$initramfs/lib/modules/$version/$(dirname "$file")"
        cp "$tree/lib/modules/$version/$file" "$initramfs/lib/modules/$version/$file"
    done
}
for module in $(grep -v '^#' "$recipe/modules"); do
    copy_module "$module"
done
"$busybox" depmod -b "$initramfs" "$version"
cp "$recipe/modules" "$initramfs/etc/modules"

(cd "$initramfs" && find . | "$busybox" cpio -o -H newc 2>/dev/null) | gzip -1 >"$output/initrd.img"
cp "$tree/boot/vmlinuz-$version" "$output/vmlinuz"

disk_tree=$output/disk
mkdir -p "$disk_tree/boot/grub"
cp "$output/vmlinuz" "$output/initrd.img" "$disk_tree/boot/"
cp "$recipe/grub.cfg" "$disk_tree/boot/grub/grub.cfg"
write_disk "$disk_tree" "$output/tiny.qcow2" 32
rm -rf "$tree" "$initramfs" "$disk_tree"
