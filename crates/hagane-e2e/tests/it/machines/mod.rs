//! Machines and Clusters of the old machine API on the lab's libvirtd and QEMU. Each test has a lab of its own.

mod bad_input;
mod console;
mod crashes;
mod debian;
mod deletion;
mod founding_files;
mod image_server;
mod images;
mod lifecycle;
mod objects;
mod resources;
mod site;
mod strangers;
