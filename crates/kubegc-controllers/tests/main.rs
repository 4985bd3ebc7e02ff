//! Tests of the controllers, in one binary.

mod actions;
mod affected;
mod cloudnodelifecycle;
mod common;
mod cronjob;
mod csrcleaner;
mod driver;
mod job;
mod namespace;
mod planner;
mod podgc;
mod requests;
mod storage;
mod transcripts;
