//! GET, LIST and WATCH handlers.

use kubegc_core::KindId;
use kubegc_sim::ApiServer;

use super::{
    Call, Verb, Watch, accept,
    options::{ListOptions, Wanted},
    page,
    problem::{self, Refusal},
    query::Query,
    render::View,
    reply::{Outcome, Reply},
    write::{render, shown_all},
};

/// Performs a GET.
///
/// # Errors
/// The refusal of options, versions and forms.
pub(super) fn respond(
    server: &ApiServer,
    call: &Call,
    kind: KindId,
    query: &Query,
    view: View,
) -> Result<Outcome, Refusal> {
    if call.verb == Verb::Get {
        return one(server, call, kind, query, &view).map(Outcome::Whole);
    }
    let options = ListOptions::read(query, call.verb, server.version())?;
    server
        .check_filter(kind, &options.filter)
        .map_err(|response| problem::of_response(&response))?;
    let namespace = collection_namespace(call);
    if call.verb == Verb::Watch {
        accept::stream(view.encoding)?;
        view.fits_watch()?;
        return Watch::begin(server, kind, namespace, options, view).map(Outcome::Stream);
    }
    let page = page::of(server, kind, namespace, &options)?;
    let items = shown_all(server, kind, &page.items)?;
    let body = view.list(&items, &page.meta, server.now())?;
    Ok(Outcome::Whole(Reply::object(200, body).encoded(view.encoding)))
}

/// The namespace that a collection is read from; `None` for all of them.
pub(super) fn collection_namespace(call: &Call) -> Option<&str> {
    (!call.namespace.is_empty()).then_some(&*call.namespace)
}

fn one(server: &ApiServer, call: &Call, kind: KindId, query: &Query, view: &View) -> Result<Reply, Refusal> {
    Wanted::read(query.text("resourceVersion"))?.reached(server.revision())?;
    let response = if query.flag("export") == Some(true) && call.subresource.is_empty() {
        let exact = query.flag("exact") == Some(true);
        server.exported(kind, &call.namespace, &call.name, exact)
    } else if call.subresource.is_empty() {
        server.read(kind, &call.namespace, &call.name)
    } else {
        server.read_subresource(kind, &call.namespace, &call.name, &call.subresource)
    };
    render(server, kind, view, response).map(|reply| reply.encoded(view.encoding))
}
