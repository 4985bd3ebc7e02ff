//! Descriptions of causes: the evidence, who should act, the commands with their risk, and what not to do.

use std::collections::BTreeMap;

use kubegc_control_plane::{
    CONTROLLER_MANAGER, Refusal, RefusedBy,
    finalizers::{self, Owner},
};
use kubegc_core::{ObjectRef, OwnerReference, Quantity, record::Resource};
use kubegc_snapshot::Details;
use serde_json::json;

use super::{
    cause::{Blocked, Cause, Fix, NAMED_MAX, RootCause, STORAGE_DELETERS, is_external, names},
    find::{Finder, Found, PV_PROTECTION, PVC_PROTECTION},
    references::Correction,
    reported::quote,
};
use crate::{
    facts::{BrokenExtension, DELETING, Extension, Facts},
    judge::{Fate, content_command, evidence::JOB_TRACKING},
    words::{quoted, span},
};

/// The first minor release in which a node can be tainted as out of service without a feature gate.
const OUT_OF_SERVICE_MINOR: u16 = 26;
const WEBHOOK_CONFIGURATIONS: &str = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
const JOB_TRACKING_LEAK: &str = "the job-controller of 1.23.0 to 1.23.5 may leave finalizer batch.kubernetes.io/job-tracking on pods whose \
     Job no longer exists";
const TWO_PODS: &str = "if its containers still run, two pods of a StatefulSet may use one volume";

impl Finder<'_> {
    /// A cause with its evidence and its repair: who should act, the commands, and what not to do.
    ///
    /// # Complexity
    /// O(b) for b objects that it blocks.
    pub(super) fn describe(&self, cause: &Cause, blocks: Vec<Blocked>, found: Found) -> RootCause {
        let facts = self.facts;
        let direct: Vec<&Blocked> = blocks.iter().filter(|one| one.depth == 0).collect();
        let all: Vec<ObjectRef> = direct.iter().map(|one| one.object.clone()).collect();
        let mut since = direct.iter().filter_map(|one| one.since).min();
        let (mut evidence, mut warnings) = (found.evidence, Vec::new());
        let you = || "you".to_owned();
        let (word, message, objects, actor, mut fixes) = match cause {
            Cause::Extension(broken) => {
                let object = match &broken.service {
                    Some((namespace, name)) => format!("service/{name} -n {namespace}"),
                    None => broken.object.short(),
                };
                since = broken.since;
                evidence.extend(blocks.iter().find_map(|one| self.refusal(one)));
                let (word, message, fixes) = extension(facts, broken);
                (
                    word,
                    message,
                    vec![broken.object.clone()],
                    administrator(object),
                    fixes,
                )
            }
            Cause::Refused(refusal) => {
                evidence.extend(blocks.iter().find_map(|one| self.refusal(one)));
                let (word, actor, fixes) = refused(facts, refusal, &all);
                let message = format!("the API server refuses requests: {refusal}");
                (word, message, Vec::new(), actor, fixes)
            }
            Cause::Component(name) => {
                evidence.push(self.inaction(name, &blocks));
                let is_external = is_external(name);
                let is_its = |finalizer: &str| {
                    finalizers::find(finalizer).is_some_and(|known| match known.owner {
                        Owner::Controller(_) | Owner::GarbageCollector if *name == CONTROLLER_MANAGER => true,
                        owner => owner.name() == *name,
                    })
                };
                let has_events = is_external || STORAGE_DELETERS.contains(name);
                let mut fixes = vec![match all.first().filter(|_| has_events) {
                    Some(first) => fix(
                        facts.command("describe", first, ""),
                        format!("none: its Events name the failure if {name} runs; otherwise start it"),
                    ),
                    None => fix(
                        format!("kubectl get pods -n kube-system -l component={CONTROLLER_MANAGER}"),
                        "none: it shows whether the process runs; its log names what it cannot do. The \
                         provider runs it in a managed cluster",
                    ),
                }];
                let removals = self.removals(&direct, is_its);
                // Some objects wait for a controller without a finalizer.
                if is_external || !removals.is_empty() {
                    warnings.push(format!(
                        "remove the finalizer while {name} can be started: nothing cleans up then"
                    ));
                }
                fixes.extend(removals);
                fixes.extend(self.listings(&direct));
                // The provisioner runs beside the driver.
                let is_outside = is_external || *name == "external-provisioner";
                let actor = if is_outside { *name } else { CONTROLLER_MANAGER };
                let act = if is_external {
                    "remove its finalizers"
                } else {
                    "act"
                };
                let message = format!("{name} does not {act}");
                (
                    "ComponentDoesNotAct",
                    message,
                    Vec::new(),
                    actor.to_owned(),
                    fixes,
                )
            }
            Cause::Finalizer(name) => {
                let similar = facts.similar_workloads(name);
                evidence.push(facts.similarity(&similar));
                let mut fixes = Vec::new();
                if let Some(workload) = similar.first() {
                    let kind = workload.kind.to_lowercase();
                    let (namespace, workload) = (quoted(&workload.namespace), quoted(&workload.name));
                    let command = format!("kubectl logs {kind}/{workload} -n {namespace}");
                    let risk = "none: if it is the operator, it says why it does not remove the finalizer";
                    fixes.push(fix(command, risk));
                }
                fixes.extend(self.removals(&direct, |finalizer| *finalizer == **name));
                fixes.extend(self.listings(&direct));
                let warning =
                    "remove the finalizer while its operator can be started: nothing cleans up then";
                warnings.push(warning.to_owned());
                let known = finalizers::find(name).map(|known| known.owner);
                let operator = known.as_ref().map_or("the operator", |owner| owner.name());
                let actor = match similar.is_empty() {
                    true => operator.to_owned(),
                    false => format!("{operator}, perhaps {}", names(&similar)),
                };
                let owner = known.map_or("an operator".to_owned(), |owner| owner.to_string());
                let message = format!("finalizer {name} of {owner}, which does not remove it");
                ("OperatorFinalizer", message, Vec::new(), actor, fixes)
            }
            Cause::LostNode { node, object } => {
                let ready = object.as_ref().map(|object| (object, self.ready(object)));
                since = ready
                    .as_ref()
                    .and_then(|(_, ready)| ready.as_ref()?.last_transition_time);
                evidence.push(match &ready {
                    Some((object, Some(ready))) => quote(ready, object),
                    Some((object, None)) => format!("{} has no condition Ready", object.short()),
                    None => "the node does not exist".to_owned(),
                });
                let mut fixes = Vec::new();
                if let Some(object) = object {
                    if facts.version.minor() >= OUT_OF_SERVICE_MINOR {
                        let taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
                        fixes.push(fix(
                            format!("kubectl taint nodes {} {taint}", quoted(node)),
                            "its pods are deleted at once and their volumes detached",
                        ));
                    }
                    let risk = "its pods are deleted at once, and the node must be registered again";
                    fixes.push(fix(facts.command("delete", object, ""), risk));
                }
                fixes.extend(ended(facts, &all));
                warnings.push(format!("any of it unless the machine is off: {TWO_PODS}"));
                let message = format!("the kubelet of node {node} does not run");
                let (objects, actor) = (object.iter().cloned(), format!("node {node}"));
                (
                    "NodeLost",
                    message,
                    objects.collect(),
                    administrator(actor),
                    fixes,
                )
            }
            Cause::PodNotEnded(node) => {
                let risk = "none: its Events name what the kubelet cannot end or unmount";
                let first = all.first();
                let describe = first.map(|pod| fix(facts.command("describe", pod, ""), risk));
                let fixes = describe.into_iter().chain(ended(facts, &all)).collect();
                let actor = format!("the kubelet of node {node}");
                let message = format!("{actor}, which runs, has not ended pods after their grace period");
                ("PodNotEnded", message, Vec::new(), actor, fixes)
            }
            Cause::ForegroundCycle(members) => {
                let message = format!(
                    "a cycle of {} in foreground deletion, each of which waits for another one: {}",
                    members.len(),
                    names(members)
                );
                let fixes = breaks(facts, members);
                ("ForegroundCycle", message, members.clone(), you(), fixes)
            }
            Cause::ClaimInUse { claim, pods } => {
                let risk = "a controller creates the pod again, which waits for a new claim; the claim's volume may be \
                            deleted with it";
                let effect = "the volume can be deleted under a running pod";
                warnings.push(format!("remove finalizer {PVC_PROTECTION}: {effect}"));
                let (claim, users) = (claim.short(), names(pods));
                let uses = if pods.len() == 1 { "uses" } else { "use" };
                let message = format!("{claim} cannot be removed: {users} {uses} it");
                let fixes = deletes(facts, pods, "", risk);
                ("ClaimInUse", message, pods.clone(), you(), fixes)
            }
            Cause::VolumeBound { volume, claim } => {
                let effect = "the claim loses its volume while it is used";
                warnings.push(format!("remove finalizer {PV_PROTECTION}: {effect}"));
                let risk = "the data is lost if the reclaim policy of the volume is Delete";
                let (volume, name) = (volume.short(), claim.short());
                let message = format!("{volume} cannot be removed: it is bound to {name}");
                let claims = vec![claim.clone()];
                let fixes = deletes(facts, &claims, "", risk);
                ("VolumeBound", message, claims, you(), fixes)
            }
            Cause::JobTracking => {
                let actor = "kube-controller-manager: restart it, or upgrade to 1.23.6".to_owned();
                let mut fixes = self.removals(&direct, |finalizer| finalizer == JOB_TRACKING);
                for fix in &mut fixes {
                    fix.risk = "none: the Job no longer exists".to_owned();
                }
                (
                    "JobTrackingLeak",
                    JOB_TRACKING_LEAK.to_owned(),
                    Vec::new(),
                    actor,
                    fixes,
                )
            }
            Cause::OwnerNotServed { object, kind } => {
                let position = facts.positions_of(&object.uid).next().into_iter();
                let wrong = position.flat_map(|at| facts.wrong_references(self.pending, at, false));
                let unserved = wrong.filter(|one| one.problem == "KindNotServed");
                let risk = format!("{} is deleted with its other owners", object.short());
                let fixes = unserved.filter_map(|one| Some(fix(one.fix?.command, &*risk)));
                let message = format!(
                    "{} names an owner of {kind}, which is not served: the garbage collector never decides \
                     about it",
                    object.short()
                );
                (
                    "OwnerNotServed",
                    message,
                    vec![object.clone()],
                    you(),
                    fixes.collect(),
                )
            }
            Cause::UnseenContent { object, resources } => {
                let risk = "none: a diagnosis with its output, and with that of `kubectl get apiservices -o json`, \
                            names what remains";
                let fixes = vec![fix(content_command(object, resources), risk)];
                let message = format!("{} may have content that is not in the dump", object.short());
                ("ContentNotInDump", message, vec![object.clone()], you(), fixes)
            }
            Cause::Other { object, wait } => {
                let actor = "the component that it waits for".to_owned();
                let message = format!("{} is {wait}", object.short());
                ("Other", message, vec![object.clone()], actor, Vec::new())
            }
        };
        let more = all.len().saturating_sub(NAMED_MAX);
        if let (Some(last), 1.., true) = (fixes.last_mut(), more, objects.is_empty()) {
            let risk = &mut last.risk;
            risk.push_str(&format!("; {more} more objects need the same"));
        }
        for (kind, finalizer, content) in [
            (
                "Namespace",
                "kubernetes",
                "its content stays in etcd, and is there again in a namespace of its name",
            ),
            (
                "CustomResourceDefinition",
                "customresourcecleanup.apiextensions.k8s.io",
                "its custom resources stay in etcd, and are there again with a definition of its name",
            ),
        ] {
            if let Some(one) = blocks.iter().find(|one| *one.object.kind == *kind) {
                let object = one.object.short();
                warnings.push(format!("remove finalizer {finalizer} of {object}: {content}"));
            }
        }
        RootCause {
            cause: word,
            message,
            objects,
            proof: found.proof,
            since,
            is_recent: false,
            actor,
            evidence,
            blocks,
            fixes,
            warnings,
        }
    }

    /// The evidence that a component does not act.
    fn inaction(&self, component: &str, blocks: &[Blocked]) -> String {
        let mut silent = self.facts.silent.iter();
        if let Some(silent) = silent.find(|silent| silent.component == component) {
            return format!(
                "{} has waited for it for {}, and it normally acts within {}",
                silent.object.short(),
                span(silent.lasted),
                span(silent.within)
            );
        }
        let waiting = blocks.first().filter(|_| STORAGE_DELETERS.contains(&component));
        match waiting.and_then(|one| Some((one, one.since?))) {
            Some((one, since)) => format!(
                "{} has waited for it for {}: it does not run, or cannot delete the storage",
                one.object.short(),
                span(self.now.since(since))
            ),
            None => "it is assumed not to act".to_owned(),
        }
    }

    /// The lists of the content of namespaces that is not in the dump, as far as their conditions name it.
    fn listings(&self, objects: &[&Blocked]) -> Vec<Fix> {
        let namespaces = objects.iter().filter(|one| one.is_namespace());
        let listings = namespaces.take(NAMED_MAX).filter_map(|one| {
            let resources = self.remaining(one);
            let risk = "none: a diagnosis with its output names the objects that keep the finalizer";
            (!resources.is_empty()).then(|| fix(content_command(&one.object, &resources), risk))
        });
        listings.collect()
    }

    /// The removal of some finalizers of the first of these objects by hand.
    fn removals(&self, objects: &[&Blocked], is_meant: impl Fn(&str) -> bool) -> Vec<Fix> {
        let mut fixes = Vec::new();
        for one in objects.iter().take(NAMED_MAX) {
            for (index, name) in self.facts.view(one.position).finalizers().enumerate() {
                if is_meant(name) {
                    fixes.push(self.facts.fix_of_finalizer(&one.object, index, name));
                }
            }
        }
        fixes
    }
}

/// A cause that refuses requests for these objects: one word, the actor and the fixes.
fn refused(facts: &Facts, refusal: &Refusal, objects: &[ObjectRef]) -> (&'static str, String, Vec<Fix>) {
    const WORD: &str = "RequestRefused";
    let first = objects.first();
    let in_namespace = first.map(|object| format!(" -n {}", quoted(&object.namespace)));
    let in_namespace = in_namespace.unwrap_or_default();
    let of_policy = "the policy that refuses".to_owned();
    let (whose, command, risk) = match &refusal.by {
        None => return (WORD, administrator(of_policy), Vec::new()),
        Some(RefusedBy::Webhook(name)) => (
            format!("webhook {name}"),
            format!("get {WEBHOOK_CONFIGURATIONS} -o json"),
            &*format!("none: a diagnosis with its output has the command that removes webhook {name}"),
        ),
        Some(RefusedBy::Policy { binding, .. }) => (
            of_policy,
            format!("delete validatingadmissionpolicybinding {}", quoted(binding)),
            "the policy is no longer enforced where this binding applies",
        ),
        Some(RefusedBy::Conversion(name)) => (
            format!("customresourcedefinition/{name}"),
            format!("get customresourcedefinitions {} -o json", quoted(name)),
            "none: spec.conversion names the Service of the webhook",
        ),
        Some(RefusedBy::Authorization(user)) => (
            "the cluster's authorization".to_owned(),
            format!("auth can-i --list --as={}", quoted(user)),
            "none: it shows what the user may do; its ClusterRole and binding may be missing",
        ),
        Some(RefusedBy::Quota(name)) => (
            format!("resourcequota/{name}{in_namespace}"),
            format!("get resourcequota {}{in_namespace} -o yaml", quoted(name)),
            "none: status.used and status.hard show what is used up; delete what is not needed",
        ),
        Some(RefusedBy::Conflict) => {
            let risk =
                "none: the newest entries of metadata.managedFields name the writers; stop one of them";
            let shown = first.map(|object| facts.command("get", object, " -o yaml --show-managed-fields"));
            let fixes = shown.map(|command| fix(command, risk)).into_iter().collect();
            return (
                "WriteConflict",
                format!("the other writer of {}", names(objects)),
                fixes,
            );
        }
        // Names of later releases of kubegc-sim.
        Some(_) => return (WORD, administrator("what refuses".to_owned()), Vec::new()),
    };
    let mut fixes = vec![fix(format!("kubectl {command}"), risk)];
    let Some(RefusedBy::Quota(name)) = &refusal.by else {
        return (WORD, administrator(whose), fixes);
    };
    if let Some(hard) = raised(&refusal.message) {
        let patch = quoted(&json!({ "spec": { "hard": hard } }).to_string());
        let name = quoted(name);
        let command = format!("kubectl patch resourcequota {name}{in_namespace} --type=merge -p {patch}");
        let risk = "the namespace may use more of the cluster than it was given";
        fixes.push(fix(command, risk));
    }
    ("QuotaExceeded", administrator(whose), fixes)
}

fn administrator(whose: String) -> String {
    format!("the administrator of {whose}")
}

/// The limits that allow a request which a quota refuses with this message.
fn raised(message: &str) -> Option<BTreeMap<&str, String>> {
    let amounts = |name: &str| -> Option<BTreeMap<&str, Quantity>> {
        let (_, rest) = message.split_once(name)?;
        let list = rest.split(", ").next()?;
        let amounts = list.split(',').map(|one| {
            let (resource, amount) = one.split_once('=')?;
            Some((resource, Quantity::parse(amount)?))
        });
        amounts.collect()
    };
    let (requested, used) = (amounts("requested: ")?, amounts("used: ")?);
    let raised = requested
        .into_iter()
        .map(|(resource, amount)| Some((resource, used.get(resource)?.plus(amount).to_string())));
    raised.collect()
}

fn fix(command: String, risk: impl Into<String>) -> Fix {
    Fix {
        command,
        risk: risk.into(),
    }
}

fn deletes(facts: &Facts, objects: &[ObjectRef], arguments: &str, risk: &str) -> Vec<Fix> {
    let objects = objects.iter().take(NAMED_MAX);
    let fixes = objects.map(|object| fix(facts.command("delete", object, arguments), risk));
    fixes.collect()
}

fn ended(facts: &Facts, pods: &[ObjectRef]) -> Vec<Fix> {
    deletes(facts, pods, " --grace-period=0 --force", TWO_PODS)
}

/// A broken extension: one word, the sentence and the fixes.
fn extension(facts: &Facts, broken: &BrokenExtension) -> (&'static str, String, Vec<Fix>) {
    let mut fixes = Vec::new();
    let (object, failure, short) = (&broken.object, &broken.failure, broken.object.short());
    // Nothing can be created in a namespace that is being deleted.
    let is_deleting = |namespace: &str| {
        let at = facts.by_name(Resource::Namespaces, "", namespace);
        at.is_some_and(|at| facts.has(at, DELETING))
    };
    let service = broken.service.as_ref();
    if let Some((namespace, name)) = service.filter(|(namespace, _)| !is_deleting(namespace)) {
        let (namespace, name) = (quoted(namespace), quoted(name));
        let label = format!("kubernetes.io/service-name={name}");
        fixes.push(fix(
            format!("kubectl get endpointslices -n {namespace} -l {label}"),
            "none: it shows whether its server is ready; restore the Service and its pods if not",
        ));
    }
    let (word, message, last) = match &broken.extension {
        Extension::Api { api_version, .. } => {
            let command = facts.command("delete", object, "");
            let risk = format!("requests for {api_version} are not served until it is registered again");
            let message = format!(
                "{short} is not available ({failure}): the discovery of {api_version} fails, and no \
                 namespace can be removed"
            );
            ("ApiUnavailable", message, fix(command, risk))
        }
        Extension::Webhook { name, requests, .. } => {
            let configuration = facts.positions_of(&object.uid).next();
            let configuration = configuration.map(|at| facts.view(at));
            let details = configuration.and_then(|one| one.details());
            let index = match details {
                Some(Details::Webhooks(all)) if all.len() > 1 => all.iter().position(|one| one.name == *name),
                _ => None,
            };
            let command = match index {
                Some(index) => {
                    let path = format!("/webhooks/{index}");
                    let test = json!({ "op": "test", "path": format!("{path}/name"), "value": name });
                    facts.patch_command(object, &json!([test, { "op": "remove", "path": path }]))
                }
                None => facts.command("delete", object, ""),
            };
            let risk = "these requests are no longer checked or changed until the webhook is installed again";
            let requests = requests.join(", ");
            let message = format!("webhook {name} of {short} refuses {requests}: {failure}");
            ("WebhookRefuses", message, fix(command, risk))
        }
        Extension::Conversion => {
            let patch = json!({ "spec": { "conversion": { "strategy": "None", "webhook": null } } });
            let rest = format!(" --type=merge -p {}", quoted(&patch.to_string()));
            let risk = "fields that differ between the versions are lost when an object is written";
            let message = format!(
                "the conversion webhook of {short} cannot be reached ({failure}): objects that are not stored in the \
                 requested version cannot be read"
            );
            (
                "ConversionFails",
                message,
                fix(facts.command("patch", object, &rest), risk),
            )
        }
    };
    fixes.push(last);
    (word, message, fixes)
}

/// The patch of one reference that breaks a cycle: preferably one that is not a controller reference.
fn breaks(facts: &Facts, members: &[ObjectRef]) -> Vec<Fix> {
    let is_in_cycle = |one: &OwnerReference| members.iter().any(|owner| owner.uid == one.uid);
    let mut found: Vec<(&ObjectRef, usize, OwnerReference)> = Vec::new();
    for member in members {
        if let Some(position) = facts.positions_of(&member.uid).next() {
            let references = facts.view(position).owner_references().enumerate();
            let references = references.filter(|(_, one)| one.is_blocking() && is_in_cycle(one));
            found.extend(references.map(|(index, reference)| (member, index, reference)));
        }
    }
    found.sort_by_key(|(.., one)| one.controller == Some(true));
    let fix = found.into_iter().next().and_then(|(member, index, reference)| {
        let risk = format!(
            "{} no longer waits for {}, and the members are removed one after another",
            reference.short(),
            member.short()
        );
        let correction = Correction::Replace(vec![("blockOwnerDeletion", json!(false))], risk);
        facts.fix_of_reference(member, index, &reference, correction, &Fate::Kept)
    });
    fix.into_iter().collect()
}
