//! The one binary: parses arguments, wires adapters to ports, starts, joins. No logic of the product lives here.

mod config;
mod logging;

fn main() {}
