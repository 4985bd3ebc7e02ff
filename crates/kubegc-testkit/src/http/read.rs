//! GET, LIST and WATCH handlers.

use kubegc_sim::ApiServer;

use super::{
    Call, ObjectRequest, Verb, Watch,
    accept::{self, Form},
    options::{ListOptions, Wanted},
    page,
    problem::{self, Refusal},
    render::ListMeta,
    reply::{Outcome, Reply},
    write::shown_all,
};

/// Performs a GET, LIST or WATCH.
pub(super) fn respond(server: &ApiServer, request: ObjectRequest<'_>) -> Result<Outcome, Refusal> {
    let (kind, encoding) = (request.kind, request.view.encoding);
    if request.call.verb == Verb::Get {
        return one(server, &request).map(|reply| Outcome::Whole(reply.encoded(encoding)));
    }
    let options = ListOptions::read(request.query, request.call.verb, server.version())?;
    server
        .check_filter(kind, &options.filter)
        .map_err(|response| problem::of_response(&response))?;
    let namespace = collection_namespace(request.call);
    if request.call.verb == Verb::Watch {
        accept::stream(encoding)?;
        if let Form::PartialList(_) = request.view.form {
            return Err(request.view.does_not_fit(false));
        }
        return Watch::begin(server, kind, namespace, options, request.view).map(Outcome::Stream);
    }
    let page = page::of(server, kind, namespace, &options)?;
    let items = shown_all(server, kind, &page.items)?;
    let body = request.view.list(&items, &page.meta, server.now())?;
    Ok(Outcome::Whole(Reply::object(200, body).encoded(encoding)))
}

/// The namespace that a collection is read from; `None` for all of them.
pub(super) fn collection_namespace(call: &Call) -> Option<&str> {
    (!call.namespace.is_empty()).then_some(&*call.namespace)
}

fn one(server: &ApiServer, request: &ObjectRequest<'_>) -> Result<Reply, Refusal> {
    let ObjectRequest {
        call, kind, query, ..
    } = *request;
    Wanted::read(query.text("resourceVersion"))?.reached(server.revision())?;
    let response = match &*call.subresource {
        "" if query.flag("export") == Some(true) => {
            let exact = query.flag("exact") == Some(true);
            server.exported(kind, &call.namespace, &call.name, exact)
        }
        "" => server.read(kind, &call.namespace, &call.name),
        part => server.read_subresource(kind, &call.namespace, &call.name, part),
    };
    request.render(server, response, ListMeta::default())
}
