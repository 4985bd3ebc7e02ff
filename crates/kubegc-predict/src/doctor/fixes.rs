//! Descriptions of causes: the evidence, who should act, the commands with their risk, and what not to do.

use std::collections::BTreeMap;

use kubegc_control_plane::{
    CONTROLLER_MANAGER, Refusal, RefusedBy,
    finalizers::{self, Owner},
};
use kubegc_controllers::job::TRACKING_FINALIZER;
use kubegc_core::{ObjectRef, OwnerReference, Quantity, record::Resource};
use kubegc_snapshot::Details;
use serde_json::json;

use super::{
    Blocked, Cause, Fix, NAMED_MAX, Proof, RootCause, STORAGE_DELETERS,
    find::{Finder, Found, PV_PROTECTION, PVC_PROTECTION, quote},
    is_external, names,
    references::Correction,
};
use crate::{
    facts::{BrokenExtension, DELETING, Extension, Facts},
    judge::{Fate, content_command},
    words::{quoted, span},
};

/// The first minor release in which a node can be tainted as out of service without a feature gate.
const OUT_OF_SERVICE_MINOR: u16 = 26;
const WEBHOOK_CONFIGURATIONS: &str = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
const JOB_TRACKING_LEAK: &str = "the job-controller of 1.23.0 to 1.23.5 may leave finalizer batch.kubernetes.io/job-tracking on pods whose \
     Job no longer exists";
const TWO_PODS: &str = "if its containers still run, two pods of a StatefulSet may use one volume";

/// A cause without the objects that it blocks and its proof.
fn cause(word: &'static str, message: String, actor: impl Into<String>, fixes: Vec<Fix>) -> RootCause {
    RootCause {
        cause: word,
        message,
        objects: Vec::new(),
        proof: Proof::Missing,
        since: None,
        is_recent: false,
        actor: actor.into(),
        evidence: Vec::new(),
        blocks: Vec::new(),
        fixes,
        warnings: Vec::new(),
    }
}

impl RootCause {
    fn about<'o>(mut self, objects: impl IntoIterator<Item = &'o ObjectRef>) -> Self {
        self.objects.extend(objects.into_iter().cloned());
        self
    }

    fn warn(mut self, warning: impl Into<String>) -> Self {
        self.warnings.push(warning.into());
        self
    }
}

/// The kinds that finalizers of the API server hold, with what happens to their content without these.
const WITH_CONTENT: [(&str, &str, &str); 2] = [
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
];

impl Finder<'_> {
    /// A cause with its evidence and its repair: who should act, the commands, and what not to do.
    ///
    /// # Complexity
    /// O(b) for b objects that it blocks.
    pub(super) fn describe(&self, cause: &Cause, blocks: Vec<Blocked>, found: Found) -> RootCause {
        let direct: Vec<&Blocked> = blocks.iter().filter(|one| one.depth == 0).collect();
        let all: Vec<ObjectRef> = direct.iter().map(|one| one.object.clone()).collect();
        let mut described = self.described(cause, &blocks, &direct, &all);
        if !matches!(cause, Cause::Extension(_) | Cause::LostNode { .. }) {
            described.since = direct.iter().filter_map(|one| one.since).min();
        }
        described.proof = found.proof;
        described.evidence.splice(0..0, found.evidence);
        let more = all.len().saturating_sub(NAMED_MAX);
        if let (Some(last), 1.., true) = (described.fixes.last_mut(), more, described.objects.is_empty()) {
            let more = format!("; {more} more objects need the same");
            last.risk.push_str(&more);
        }
        for (kind, finalizer, content) in WITH_CONTENT {
            if let Some(one) = blocks.iter().find(|one| *one.object.kind == *kind) {
                let warning = format!(
                    "remove finalizer {finalizer} of {}: {content}",
                    one.object.short()
                );
                described.warnings.push(warning);
            }
        }
        RootCause { blocks, ..described }
    }

    fn described(&self, of: &Cause, blocks: &[Blocked], direct: &[&Blocked], all: &[ObjectRef]) -> RootCause {
        let facts = self.facts;
        let refusals = blocks.iter().filter_map(|one| self.refusal(one));
        match of {
            Cause::Extension(broken) => RootCause {
                objects: vec![broken.object.clone()],
                since: broken.since,
                evidence: refusals.take(1).collect(),
                ..extension(facts, broken)
            },
            Cause::Refused(by) => RootCause {
                evidence: refusals.take(1).collect(),
                ..refused(facts, by, all)
            },
            Cause::Component(name) => self.component(name, blocks, direct),
            Cause::Finalizer(name) => self.operator(name, direct),
            Cause::LostNode { node, object } => self.lost_node(node, object.as_ref(), all),
            Cause::PodNotEnded(node) => {
                let risk = "none: its Events name what the kubelet cannot end or unmount";
                let first = all.first();
                let describe = first.map(|pod| fix(facts.command("describe", pod, ""), risk));
                let fixes = describe.into_iter().chain(ended(facts, all)).collect();
                let actor = format!("the kubelet of node {node}");
                let message = format!("{actor}, which runs, has not ended pods after their grace period");
                cause("PodNotEnded", message, actor, fixes)
            }
            Cause::ForegroundCycle(members) => {
                let message = format!(
                    "a cycle of {} in foreground deletion, each of which waits for another one: {}",
                    members.len(),
                    names(members)
                );
                cause("ForegroundCycle", message, "you", breaks(facts, members)).about(members)
            }
            Cause::InUse { object, users } => in_use(facts, object, users),
            Cause::JobTracking => {
                let actor = "kube-controller-manager: restart it, or upgrade to 1.23.6";
                let mut fixes = self.removals(direct, |finalizer| finalizer == TRACKING_FINALIZER);
                for fix in &mut fixes {
                    fix.risk = "none: the Job no longer exists".to_owned();
                }
                cause("JobTrackingLeak", JOB_TRACKING_LEAK.to_owned(), actor, fixes)
            }
            Cause::OwnerNotServed { object, kind } => {
                let position = facts.positions_of(&object.uid).next().into_iter();
                let wrong = position.flat_map(|at| self.wrong_references(at, false));
                let unserved = wrong.filter(|one| one.problem == "KindNotServed");
                let risk = format!("{} is deleted with its other owners", object.short());
                let fixes = unserved.filter_map(|one| Some(fix(one.fix?.command, &*risk)));
                let message = format!(
                    "{} names an owner of {kind}, which is not served: the garbage collector never decides \
                     about it",
                    object.short()
                );
                cause("OwnerNotServed", message, "you", fixes.collect()).about([object])
            }
            Cause::UnseenContent { object, resources } => {
                let risk = "none: a diagnosis with its output, and with that of `kubectl get apiservices -o json`, \
                            names what remains";
                let fixes = vec![fix(content_command(object, resources), risk)];
                let message = format!("{} may have content that is not in the dump", object.short());
                cause("ContentNotInDump", message, "you", fixes).about([object])
            }
            Cause::Other { object, wait } => {
                let (actor, message) = (
                    "the component that it waits for",
                    format!("{} is {wait}", object.short()),
                );
                cause("Other", message, actor, Vec::new()).about([object])
            }
        }
    }

    fn component(&self, name: &'static str, blocks: &[Blocked], direct: &[&Blocked]) -> RootCause {
        let is_external = is_external(name);
        let is_its = |finalizer: &str| {
            finalizers::find(finalizer).is_some_and(|known| match known.owner {
                Owner::Controller(_) | Owner::GarbageCollector if *name == *CONTROLLER_MANAGER => true,
                owner => owner.name() == name,
            })
        };
        let has_events = is_external || STORAGE_DELETERS.contains(&name);
        let mut fixes = vec![match direct.first().filter(|_| has_events) {
            Some(first) => fix(
                self.facts.command("describe", &first.object, ""),
                format!("none: its Events name the failure if {name} runs; otherwise start it"),
            ),
            None => fix(
                format!("kubectl get pods -n kube-system -l component={CONTROLLER_MANAGER}"),
                "none: it shows whether the process runs; its log names what it cannot do. The provider runs it \
                 in a managed cluster",
            ),
        }];
        let removals = self.removals(direct, is_its);
        // Some objects wait for a controller without a finalizer.
        let warning = (is_external || !removals.is_empty())
            .then(|| format!("remove the finalizer while {name} can be started: nothing cleans up then"));
        fixes.extend(removals);
        fixes.extend(self.listings(direct));
        // The provisioner runs beside the driver.
        let is_outside = is_external || name == "external-provisioner";
        let actor = if is_outside { name } else { CONTROLLER_MANAGER };
        let act = match is_external {
            true => "remove its finalizers",
            false => "act",
        };
        let message = format!("{name} does not {act}");
        RootCause {
            evidence: vec![self.inaction(name, blocks)],
            warnings: warning.into_iter().collect(),
            ..cause("ComponentDoesNotAct", message, actor, fixes)
        }
    }

    fn operator(&self, finalizer: &str, direct: &[&Blocked]) -> RootCause {
        let similar = self.facts.similar_workloads(finalizer);
        let mut fixes = Vec::new();
        if let Some(workload) = similar.first() {
            let kind = workload.kind.to_lowercase();
            let (namespace, workload) = (quoted(&workload.namespace), quoted(&workload.name));
            let command = format!("kubectl logs {kind}/{workload} -n {namespace}");
            let risk = "none: if it is the operator, it says why it does not remove the finalizer";
            fixes.push(fix(command, risk));
        }
        fixes.extend(self.removals(direct, |name| name == finalizer));
        fixes.extend(self.listings(direct));
        let warning = "remove the finalizer while its operator can be started: nothing cleans up then";
        let known = finalizers::find(finalizer).map(|known| known.owner);
        let operator = known.as_ref().map_or("the operator", |owner| owner.name());
        let actor = match similar.is_empty() {
            true => operator.to_owned(),
            false => format!("{operator}, perhaps {}", names(&similar)),
        };
        let owner = known.map_or("an operator".to_owned(), |owner| owner.to_string());
        let message = format!("finalizer {finalizer} of {owner}, which does not remove it");
        let described = cause("OperatorFinalizer", message, actor, fixes).warn(warning);
        let evidence = vec![self.facts.similarity(&similar)];
        RootCause {
            evidence,
            ..described
        }
    }

    fn lost_node(&self, node: &str, object: Option<&ObjectRef>, pods: &[ObjectRef]) -> RootCause {
        let facts = self.facts;
        let ready = object.and_then(|object| self.ready(object));
        let evidence = match (object, &ready) {
            (Some(object), Some(ready)) => quote(ready, object),
            (Some(object), None) => format!("{} has no condition Ready", object.short()),
            (None, _) => "the node does not exist".to_owned(),
        };
        let mut fixes = Vec::new();
        if let Some(object) = object {
            if facts.version.minor() >= OUT_OF_SERVICE_MINOR {
                let taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
                let command = format!("kubectl taint nodes {} {taint}", quoted(node));
                let risk = "its pods are deleted at once and their volumes detached";
                fixes.push(fix(command, risk));
            }
            let risk = "its pods are deleted at once, and the node must be registered again";
            fixes.push(fix(facts.command("delete", object, ""), risk));
        }
        fixes.extend(ended(facts, pods));
        let message = format!("the kubelet of node {node} does not run");
        RootCause {
            objects: object.cloned().into_iter().collect(),
            since: ready.and_then(|ready| ready.last_transition_time),
            evidence: vec![evidence],
            warnings: vec![format!("any of it unless the machine is off: {TWO_PODS}")],
            ..cause("NodeLost", message, administrator(&format!("node {node}")), fixes)
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

/// Pods use a claim, or a volume is bound to a claim.
fn in_use(facts: &Facts, object: &ObjectRef, users: &[ObjectRef]) -> RootCause {
    let names = names(users);
    let (word, usage, finalizer, effect, risk) = match *object.kind
        == *Resource::PersistentVolumeClaims.kind()
    {
        true => (
            "ClaimInUse",
            format!("{names} {} it", if users.len() == 1 { "uses" } else { "use" }),
            PVC_PROTECTION,
            "the volume can be deleted under a running pod",
            "a controller creates the pod again, which waits for a new claim; the claim's volume may be deleted \
             with it",
        ),
        false => (
            "VolumeBound",
            format!("it is bound to {names}"),
            PV_PROTECTION,
            "the claim loses its volume while it is used",
            "the data is lost if the reclaim policy of the volume is Delete",
        ),
    };
    let message = format!("{} cannot be removed: {usage}", object.short());
    cause(word, message, "you", deletes(facts, users, "", risk))
        .about(users)
        .warn(format!("remove finalizer {finalizer}: {effect}"))
}

/// A cause that refuses requests for these objects.
fn refused(facts: &Facts, refusal: &Refusal, objects: &[ObjectRef]) -> RootCause {
    let described = |word, actor: String, fixes| {
        let message = format!("the API server refuses requests: {refusal}");
        cause(word, message, actor, fixes)
    };
    let first = objects.first();
    let in_namespace = first.map(|object| format!(" -n {}", quoted(&object.namespace)));
    let in_namespace = in_namespace.unwrap_or_default();
    let of_policy = "the policy that refuses".to_owned();
    let (whose, command, risk) = match &refusal.by {
        None => (of_policy, None, ""),
        Some(RefusedBy::Webhook(name)) => (
            format!("webhook {name}"),
            Some(format!("get {WEBHOOK_CONFIGURATIONS} -o json")),
            &*format!("none: a diagnosis with its output has the command that removes webhook {name}"),
        ),
        Some(RefusedBy::Policy { binding, .. }) => (
            of_policy,
            Some(format!(
                "delete validatingadmissionpolicybinding {}",
                quoted(binding)
            )),
            "the policy is no longer enforced where this binding applies",
        ),
        Some(RefusedBy::Conversion(name)) => (
            format!("customresourcedefinition/{name}"),
            Some(format!("get customresourcedefinitions {} -o json", quoted(name))),
            "none: spec.conversion names the Service of the webhook",
        ),
        Some(RefusedBy::Authorization(user)) => (
            "the cluster's authorization".to_owned(),
            Some(format!("auth can-i --list --as={}", quoted(user))),
            "none: it shows what the user may do; its ClusterRole and binding may be missing",
        ),
        Some(RefusedBy::Quota(name)) => (
            format!("resourcequota/{name}{in_namespace}"),
            Some(format!(
                "get resourcequota {}{in_namespace} -o yaml",
                quoted(name)
            )),
            "none: status.used and status.hard show what is used up; delete what is not needed",
        ),
        Some(RefusedBy::Conflict) => {
            let risk =
                "none: the newest entries of metadata.managedFields name the writers; stop one of them";
            let shown = first.map(|object| facts.command("get", object, " -o yaml --show-managed-fields"));
            let fixes = shown.map(|command| fix(command, risk)).into_iter().collect();
            let actor = format!("the other writer of {}", names(objects));
            return described("WriteConflict", actor, fixes);
        }
        // Names of later releases of kubegc-sim.
        Some(_) => ("what refuses".to_owned(), None, ""),
    };
    let command = command.map(|command| fix(format!("kubectl {command}"), risk));
    let mut fixes: Vec<Fix> = command.into_iter().collect();
    let Some(RefusedBy::Quota(name)) = &refusal.by else {
        return described("RequestRefused", administrator(&whose), fixes);
    };
    if let Some(hard) = raised(&refusal.message) {
        let patch = quoted(&json!({ "spec": { "hard": hard } }).to_string());
        let name = quoted(name);
        let command = format!("kubectl patch resourcequota {name}{in_namespace} --type=merge -p {patch}");
        let risk = "the namespace may use more of the cluster than it was given";
        fixes.push(fix(command, risk));
    }
    described("QuotaExceeded", administrator(&whose), fixes)
}

fn administrator(whose: &str) -> String {
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

fn extension(facts: &Facts, broken: &BrokenExtension) -> RootCause {
    let mut fixes = Vec::new();
    let (object, failure, short) = (&broken.object, &broken.failure, broken.object.short());
    let registered_by = match &broken.service {
        Some((namespace, name)) => format!("service/{name} -n {namespace}"),
        None => short.clone(),
    };
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
    cause(word, message, administrator(&registered_by), fixes)
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
