//! The Kubernetes API of Hagane: discovery, reading, watching and writing objects, over `hagane-store`.
//!
//! [`ApiServer`] is a tower service: a client in the same process calls it without a socket, and a TLS listener can be
//! put in front of it. It serves the built-in kinds that the product needs, the kinds of `hagane-api`, and kinds that
//! users define.
//!
//! It runs no controllers other than those every Kubernetes API has (namespaces, owner references, definitions), and
//! knows nothing of machines, clusters or installers.
#![warn(missing_docs)]

mod background;
mod body;
mod clock;
mod context;
mod decode;
mod definitions;
mod discovery;
mod documents;
mod error;
mod identity;
mod listener;
mod managed_fields;
mod metadata;
mod names;
mod negotiate;
mod object;
mod openapi;
mod patch;
mod pki;
mod protobuf;
mod query;
mod registry;
mod removal;
mod render;
mod request;
mod rows;
mod schema;
mod select;
mod server;
mod service;
mod state;
mod strict;
mod table;
mod verbs;

pub use body::ResponseBody;
pub use error::{ApiError, ApiResult};
pub use identity::Identity;
pub use pki::{Pki, PkiError, ensure as ensure_pki};
pub use server::{ApiServer, OpenError, Options};
pub use service::InProcess;
