//! The whole product in a lab: the real binary, libvirtd, QEMU, kubectl and Ansible. One binary, so that it is linked once.
//!
//! Run by `make test`. Without `HAGANE_SLOW_TESTS` nothing here does anything but say that it was left out.

mod hosts;
mod machines;
mod support;
