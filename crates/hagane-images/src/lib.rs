//! Machine images: fetched once, verified, kept under their digest, and served to machines.
//!
//! [`ImageStore`] implements the port [`hagane_ports::ImageSource`]: it fetches `http:`, `https:` and `file:` URIs in the
//! background, checks digest and content, and keeps each image under `sha256/<digest>` in its cache directory, where a
//! restart finds it again. [`image_server`] serves one directory read-only.
//!
//! It unpacks and converts nothing, uploads nothing to a hypervisor, resolves no Secrets and never deletes an image
//! that may be in use; it does not trust names, headers or suffixes, only content.

#![warn(missing_docs)]

mod address;
mod backoff;
mod beneath;
mod cache;
mod client;
mod content;
mod copy;
mod download;
mod fault;
mod fetch;
mod index;
mod options;
mod progress;
mod qcow2;
mod seed;
mod server;
mod sink;
mod store;
mod uri;

pub use options::{ImageOptions, OpenError};
pub use server::image_server;
pub use store::ImageStore;
