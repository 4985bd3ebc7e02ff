//! The namespaces of simulated API servers.

use kubegc_sim::ApiServer;
use serde_json::json;

use crate::Failure;

/// Creates namespaces on a server.
pub(crate) fn create_namespaces<'n>(
    server: &mut ApiServer,
    names: impl IntoIterator<Item = &'n str>,
) -> Result<(), Failure> {
    let namespaces = server.catalog().mapping("v1", "Namespace");
    let namespaces = namespaces.ok_or_else(|| Failure::unreadable("there is no kind Namespace"))?;
    for name in names {
        let response = server.create_json(namespaces, "", json!({"metadata": {"name": name}}));
        if response.code != 201 {
            let body = &response.body;
            return Err(Failure::unreadable(format!(
                "the namespace {name} is not created: {body:?}"
            )));
        }
    }
    Ok(())
}
