//! A real containerd, started by each test for itself, collected by the client and the driver under test.
//!
//! `KUBEGC_CONTAINERD` names a directory with the unpacked Debian packages `containerd`, `runc` and
//! `busybox-static`. Where it is not set, or the tests do not run as root, they print that they were skipped,
//! except where `CI=true`: there they fail.

mod collector;
mod containers;
mod crash;
mod daemon;
mod facts;
mod handshake;
mod host;
mod images;
mod namespace;
mod oci;
mod programs;
mod raw;
#[path = "../wire.rs"]
mod wire;

/// A test for each scenario, by its name.
macro_rules! on_a_node {
    ($($module:ident::$scenario:ident;)+) => {
        $(
            #[test]
            fn $scenario() {
                namespace::on_a_node(stringify!($scenario), $module::$scenario);
            }
        )+
    };
}

on_a_node! {
    handshake::the_runtime_reports_its_version_and_state;
    handshake::the_disk_is_measured;
    handshake::errors_name_the_problem_of_the_socket;
    containers::dead_containers_beyond_the_limits_are_removed_oldest_first;
    containers::sandboxes_are_removed_after_their_pods;
    images::unused_images_are_removed_least_recently_used_first;
    images::the_sandbox_image_is_removed_if_the_runtime_does_not_pin_it;
    crash::a_container_run_continues_after_the_runtime_was_killed;
    crash::containers_are_dead_after_all_processes_were_killed;
    facts::containers_and_images_in_use_are_removed_on_request;
    facts::an_empty_id_is_a_prefix_of_every_image_id;
}
