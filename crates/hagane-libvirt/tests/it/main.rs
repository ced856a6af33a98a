//! The driver against real libvirt daemons.
//!
//! Tests on libvirt's in-memory hypervisor start a private daemon of their own and need the programs `libvirtd` and
//! `virsh`, no root. Tests on a real one need `HAGANE_TEST_LIBVIRT`, a connection URI of a libvirtd that belongs to
//! the test, with an active directory pool and an active network with DHCP, both named `default` or as
//! `HAGANE_TEST_POOL` and `HAGANE_TEST_NETWORK` say, and `HAGANE_TEST_ADDRESS`, a free address of that network. Tests
//! that boot take `HAGANE_TEST_IMAGE`, a qcow2 that asks for an address under the host name in its seed. What cannot be
//! run says why. In the lab, with the test binary that `cargo test --no-run` names:
//!
//! ```text
//! cargo xtask lab up --id ID --hosts 0
//! cargo xtask lab exec --id ID -- env HAGANE_TEST_LIBVIRT=qemu:///system HAGANE_TEST_ADDRESS=192.168.122.12 \
//!     HAGANE_TEST_IMAGE=TINY.qcow2 BINARY --test-threads 1
//! ```
//!
//! `HAGANE_TEST_FIGURES=1` adds the time a machine takes; `HAGANE_TEST_CUT_STEP=1` cuts after every single call.
#![allow(clippy::disallowed_methods, reason = "tests start daemons and tools")]

mod boot;
mod contract;
mod cuts;
mod daemon;
mod faults;
mod figures;
mod real;
mod world;
