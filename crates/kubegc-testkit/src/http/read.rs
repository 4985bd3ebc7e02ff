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
pub(super) fn respond(server: &ApiServer, asked: ObjectRequest<'_>) -> Result<Outcome, Refusal> {
    let (kind, encoding) = (asked.kind, asked.view.encoding);
    if asked.call.verb == Verb::Get {
        return one(server, &asked).map(|reply| Outcome::Whole(reply.encoded(encoding)));
    }
    let options = ListOptions::read(asked.query, asked.call.verb, server.version())?;
    server
        .check_filter(kind, &options.filter)
        .map_err(|response| problem::of_response(&response))?;
    let namespace = collection_namespace(asked.call);
    if asked.call.verb == Verb::Watch {
        accept::stream(encoding)?;
        if let Form::PartialList(_) = asked.view.form {
            return Err(asked.view.does_not_fit(false));
        }
        return Watch::begin(server, kind, namespace, options, asked.view).map(Outcome::Stream);
    }
    let page = page::of(server, kind, namespace, &options)?;
    let items = shown_all(server, kind, &page.items)?;
    let body = asked.view.list(&items, &page.meta, server.now())?;
    Ok(Outcome::Whole(Reply::object(200, body).encoded(encoding)))
}

/// The namespace that a collection is read from; `None` for all of them.
pub(super) fn collection_namespace(call: &Call) -> Option<&str> {
    (!call.namespace.is_empty()).then_some(&*call.namespace)
}

fn one(server: &ApiServer, asked: &ObjectRequest<'_>) -> Result<Reply, Refusal> {
    let ObjectRequest {
        call, kind, query, ..
    } = *asked;
    Wanted::read(query.text("resourceVersion"))?.reached(server.revision())?;
    let response = match &*call.subresource {
        "" if query.flag("export") == Some(true) => {
            let exact = query.flag("exact") == Some(true);
            server.exported(kind, &call.namespace, &call.name, exact)
        }
        "" => server.read(kind, &call.namespace, &call.name),
        part => server.read_subresource(kind, &call.namespace, &call.name, part),
    };
    asked.render(server, response, ListMeta::default())
}
