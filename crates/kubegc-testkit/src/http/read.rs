//! GET, LIST and WATCH handlers.

use kubegc_sim::ApiServer;

use super::{
    ObjectRequest, Outcome, Verb, Watch,
    accept::{self, Form},
    options::{ListOptions, Wanted},
    page,
    problem::{self, Refusal},
    render::ListMeta,
    reply::Reply,
};

pub(super) fn respond(server: &ApiServer, request: ObjectRequest<'_>) -> Result<Outcome, Refusal> {
    let (call, kind, encoding) = (request.call, request.kind, request.view.encoding);
    if call.verb == Verb::Get {
        return one(server, &request).map(|reply| Outcome::Whole(reply.encoded(encoding)));
    }
    let is_watch = call.verb == Verb::Watch;
    let options = ListOptions::read(request.query, is_watch, server.version())?;
    server
        .check_filter(kind, &options.filter)
        .map_err(|response| problem::of_response(&response))?;
    let namespace = call.collection_namespace();
    if is_watch {
        accept::stream(encoding)?;
        if let Form::PartialList(_) = request.view.form {
            return Err(request.view.does_not_fit(false));
        }
        return Watch::begin(server, kind, namespace, options, request.view).map(Outcome::Stream);
    }
    let page = page::of(server, kind, namespace, &options)?;
    let body = request.view.list(server, kind, &page.items, &page.meta)?;
    Ok(Outcome::Whole(Reply::object(200, body).encoded(encoding)))
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
    request.view.reply(server, kind, response, ListMeta::default())
}
