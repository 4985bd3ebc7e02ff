//! A real containerd, started by each test for itself, collected by the client and the driver under test.
//!
//! `KUBEGC_CONTAINERD` names a folder with the unpacked Debian packages `containerd`, `runc` and
//! `busybox-static`; without it the path is searched. Where they are missing, or the tests do not run as
//! root, they say so and pass, except where `CI=true`: there they fail.

#[path = "../wire.rs"]
mod bindings;
mod collector;
mod containers;
mod crash;
#[path = "../crictl.rs"]
mod crictl;
mod daemon;
mod facts;
mod handshake;
mod host;
mod images;
mod namespace;
mod oci;
mod parity;
mod programs;
mod raw;

use bindings::cri as wire;

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
    handshake::the_runtime_says_what_it_is;
    handshake::the_disk_is_measured;
    handshake::errors_name_the_problem_of_the_socket;
    containers::dead_ones_go_by_the_limits_oldest_first;
    containers::sandboxes_go_with_their_pods;
    images::unused_ones_go_least_recently_used_first;
    images::the_sandbox_image_is_removed_unless_it_is_kept;
    crash::a_pass_over_containers_survives_the_runtime;
    crash::a_pass_over_images_survives_the_runtime;
    crash::what_ran_is_dead_after_all_was_killed;
    parity::printed_listings_read_to_the_live_plans;
    facts::what_is_in_use_is_removed_when_asked;
    facts::removing_a_removed_object_succeeds;
    facts::no_id_is_the_beginning_of_every_id_of_an_image;
}
