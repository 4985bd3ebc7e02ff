//! The HTTP layer, by requests and answers.

mod deletes;
mod discovery;
mod kube_requests;
mod negotiation;
mod pages;
mod paths;
mod properties;
mod watches;
mod world;
mod writes;
