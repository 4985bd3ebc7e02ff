//! Persistent volumes and claims: reclaim, external provisioners, protection.

mod external;
mod laws;
mod manager;
mod protection;
mod reclaim;
mod responses;
mod support;
