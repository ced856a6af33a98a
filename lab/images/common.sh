# Shared by the image recipes: where packages come from, and a bootstrap that can not leave mounts behind.
#
# Package sources are read from the machine's own apt, so that a recipe works with whatever mirror, proxy or release
# the machine uses, and no mirror is named here.

set -eu

# Prints one-line apt sources for every Debian archive the machine knows; archives of other vendors are left out.
debian_sources() {
    apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' 'Origin: Debian' |
        sort -u |
        sed 's/^/deb /'
}

# Prints the machine's settings for fetching (proxies, date checks), for apt inside the image.
acquire_settings() {
    apt-config dump Acquire
}

# The release the machine itself runs: images are built from the same one.
debian_release() {
    . /etc/os-release
    printf '%s\n' "$VERSION_CODENAME"
}

# bootstrap TARGET PACKAGES [mmdebstrap options]: a root filesystem in TARGET.
# The private mount and process namespaces end with the command, also when it is killed.
bootstrap() {
    target=$1
    packages=$2
    shift 2
    sources=$(mktemp)
    settings=$(mktemp)
    debian_sources >"$sources"
    acquire_settings >"$settings"
    unshare --mount --pid --fork --kill-child --mount-proc -- \
        mmdebstrap --mode=root --variant=minbase --format=directory \
        --aptopt="$settings" \
        --aptopt='Apt::Install-Recommends "false"' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --dpkgopt='path-exclude=/usr/share/info/*' \
        --include="$packages" "$@" \
        "$(debian_release)" "$target" "$sources"
    rm -f "$sources" "$settings" "$target/etc/apt/apt.conf.d/99mmdebstrap"
    : >"$target/etc/machine-id"
    rm -rf "$target"/var/lib/apt/lists/* "$target"/var/cache/apt/* "$target"/etc/ssh/ssh_host_*
}

# unpack_packages DIRECTORY PACKAGE...: the files of Debian packages, without installing them anywhere.
unpack_packages() {
    directory=$1
    shift
    archives=$(mktemp -d)
    chmod 0755 "$archives"
    (cd "$archives" && apt-get download -q -o APT::Sandbox::User=root "$@")
    mkdir -p "$directory"
    for archive in "$archives"/*.deb; do
        dpkg-deb -x "$archive" "$directory"
    done
    rm -rf "$archives"
}

# write_disk ROOT DISK SIZE_MIB: a qcow2 disk with one bootable ext4 partition that holds ROOT (with boot/grub/grub.cfg).
# No loop device is used: the file system is filled by mkfs, and GRUB's core image lies in the gap before the partition,
# where its boot sector expects it by default.
write_disk() {
    root=$1
    disk=$2
    size_mib=$3
    work=$(mktemp -d -p "$(dirname "$disk")")
    unpack_packages "$work/tools" grub-common grub-pc-bin libdevmapper1.02.1
    modules=$work/tools/usr/lib/grub/i386-pc
    LD_LIBRARY_PATH=$work/tools/lib/$(uname -m)-linux-gnu "$work/tools/usr/bin/grub-mkimage" \
        --directory="$modules" --format=i386-pc --prefix='(hd0,msdos1)/boot/grub' --output="$work/core.img" \
        biosdisk part_msdos ext2 normal configfile linux serial

    truncate -s "$((size_mib - 1))M" "$work/partition"
    mkfs.ext4 -q -L root -m 0 -O '^metadata_csum_seed,^orphan_file' -E 'lazy_itable_init=1,lazy_journal_init=1' \
        -d "$root" "$work/partition"
    truncate -s 1M "$work/raw"
    dd if="$modules/boot.img" of="$work/raw" bs=440 count=1 conv=notrunc status=none
    dd if="$work/core.img" of="$work/raw" bs=512 seek=1 conv=notrunc status=none
    truncate -s "${size_mib}M" "$work/raw"
    printf 'label: dos\nstart=2048, type=83, bootable\n' | sfdisk --quiet --no-tell-kernel "$work/raw"
    dd if="$work/partition" of="$work/raw" bs=1M seek=1 conv=notrunc,sparse status=none
    qemu-img convert -q -f raw -O qcow2 "$work/raw" "$disk"
    rm -rf "$work"
}
