//! Tests of the controllers, in one binary.

mod actions;
mod adoption;
mod affected;
mod cloudnodelifecycle;
mod common;
mod cronjob;
mod csrcleaner;
mod driver;
mod eviction;
mod history;
mod job;
mod legacytokens;
mod namespace;
mod networking;
mod nodelifecycle;
mod planner;
mod podcertificaterequests;
mod podgc;
mod protection;
mod requests;
mod serviceaccounttokens;
mod statefulset;
mod storage;
mod support;
mod tokencleaner;
mod ttlafterfinished;
