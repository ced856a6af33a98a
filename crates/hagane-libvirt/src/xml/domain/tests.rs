//! The document, compared letter by letter with the one that was booted.

use super::*;

fn spec() -> DomainSpec {
    DomainSpec {
        owner: Owner {
            uid: "6c1f2b1e-8a44-4f0e-9d53-0f6f6f1d2a11".into(),
            namespace: "lab".into(),
            name: "m1".into(),
            pool: "default".into(),
            network: "cluster".into(),
        },
        name: "m1-0badcafe".into(),
        uuid: Uuid::from_u128(0x6c1f_2b1e_8a44_4f0e_9d53_0f6f_6f1d_2a11),
        host: HostProfile {
            kind: "kvm".into(),
            arch: "x86_64".into(),
            machine: Some("pc-q35-7.2".into()),
            emulator: Some("/usr/bin/qemu-system-x86_64".into()),
            cpu_mode: Some("host-passthrough".into()),
            vcpus_max: Some(288),
        },
        vcpus: 2,
        memory: MemoryMib(2048),
        mac: "52:01:02:03:04:05".into(),
        root_path: "/srv/pool/hagane-root.qcow2".into(),
        seed_path: "/srv/pool/hagane-seed.iso".into(),
        console_log: None,
    }
}

#[test]
fn writes_a_domain_for_kvm() {
    insta::assert_snapshot!("kvm", domain_xml(&spec()));
}

#[test]
fn writes_an_emulated_domain_with_a_console_log() {
    let mut spec = spec();
    spec.host.kind = "qemu".into();
    spec.host.cpu_mode = Some("maximum".into());
    spec.console_log = Some("/var/log/libvirt/qemu/m1-0badcafe-console.log".into());
    insta::assert_snapshot!("emulated", domain_xml(&spec));
}

#[test]
fn writes_a_domain_for_arm() {
    let mut spec = spec();
    spec.host.arch = "aarch64".into();
    spec.host.machine = Some("virt-7.2".into());
    spec.host.emulator = Some("/usr/bin/qemu-system-aarch64".into());
    insta::assert_snapshot!("arm", domain_xml(&spec));
}

#[test]
fn reads_back_what_it_wrote() {
    let spec = spec();
    let facts = parse_domain(&domain_xml(&spec)).expect("our own document");
    assert_eq!(facts.owner, Some(spec.owner));
    assert_eq!((facts.vcpus, facts.memory, facts.mac), (spec.vcpus, spec.memory, Some(spec.mac)));
}

#[test]
fn a_name_cannot_break_out_of_the_document() {
    let mut spec = spec();
    spec.owner.name = "x'/><evil a=\"".into();
    spec.owner.network = "</source><evil/>".into();
    let text = domain_xml(&spec);
    assert!(!text.contains("<evil"), "{text}");
    assert_eq!(parse_domain(&text).expect("well-formed").owner, Some(spec.owner));
}

#[test]
fn a_strangers_metadata_is_not_ours() {
    for metadata in [
        "",
        "<x:machine xmlns:x='https://example.org/1' uid='a'/>",
        "<hagane:machine xmlns:hagane='https://hagane.dev/libvirt/2' uid='a'/>",
        "<hagane:machine xmlns:hagane='https://hagane.dev/libvirt/1' uid=''/>",
        "<hagane:network xmlns:hagane='https://hagane.dev/libvirt/1' uid='a'/>",
    ] {
        let text = format!("<domain><metadata>{metadata}</metadata></domain>");
        assert_eq!(parse_domain(&text).expect("well-formed").owner, None, "{metadata}");
    }
    let other_prefix =
        "<domain><metadata><m:machine xmlns:m='https://hagane.dev/libvirt/1' uid='a'/></metadata></domain>";
    assert_eq!(parse_domain(other_prefix).expect("well-formed").owner.map(|owner| owner.uid), Some("a".into()));
}

#[test]
fn reads_memory_in_every_unit() {
    for (memory, mib) in [
        ("<memory unit='KiB'>2097152</memory>", 2048),
        ("<memory>1048576</memory>", 1024),
        ("<memory unit='MiB'>512</memory>", 512),
        ("<memory unit='GiB'>2</memory>", 2048),
        ("<memory unit='b'>1048576</memory>", 1),
        ("<memory unit='KiB'>x</memory>", 0),
    ] {
        assert_eq!(parse_domain(&format!("<domain>{memory}</domain>")).expect(memory).memory, MemoryMib(mib));
    }
}
