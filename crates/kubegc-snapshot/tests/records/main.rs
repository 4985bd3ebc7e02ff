//! The records that are read of objects, and the patches that change objects.

mod cluster;
mod common;
mod controllers;
mod laws;
mod patches;
mod pods;
mod records;
mod security;
mod storage;
mod workloads;
