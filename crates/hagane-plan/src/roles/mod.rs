//! Which host becomes which node.
//!
//! # Goals, in this order
//! 1. Recorded assignments stay.
//! 2. Most demands are met; among equally many, masters first, then the listed order.
//! 3. Masters stand in as many failure domains as possible, and no domain has more than ⌈masters / domains⌉ of them
//!    where that can be avoided. Hosts without a failure domain count as one domain.
//! 4. The sum of the hosts' ranks is least. Rank is the place in the order (memory, CPU, disk, NICs, name) of all hosts;
//!    an unknown fact comes after every known one.
//! 5. Then, in the order of goal 2, each demand gets the lowest-ranked host that leaves the rest solvable.
//!
//! # How
//! Without goal 3 the host sets that can be used form a transversal matroid, so hosts are added along cheapest
//! augmenting paths ([`network`]). For one shape of masters goal 3 is a convex cost on the failure domains and stays
//! in the same network; for several shapes all but one are tried over the domains ([`spread`]). Goal 5 walks
//! zero-cost cycles of the finished network ([`settle`]).
//!
//! Only hosts and demands are looked at: nothing is claimed, stored or installed here.

mod candidates;
mod demand;
mod facts;
mod fit;
mod network;
mod plan;
mod report;
mod settle;
mod spread;
#[cfg(test)]
mod tests;

pub use demand::{Demand, Needs, NodeRole, Recorded};
pub use facts::{Availability, HostAddress, HostFacts, Nic};
pub use fit::Lack;
pub use plan::plan_roles;
pub use report::{Assignment, Change, Edit, Looked, Nearest, Plan, Rejected, Shortage, Spare, Unsatisfied};
