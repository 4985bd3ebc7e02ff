//! Foresees the passes of all volumes: what they do if every call succeeds, and why volumes stay.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{Kept, PlanOf, Planner, StoreError, Timestamp};

use super::{
    super::{Claim, ClaimRef, Pod, Volume},
    Action, Answer, Ending, Known, Pass, Plugin, Reason, Settings, Step,
};
use crate::object::{Change, Live, Object, Operation, Reads, Resource, by_identity};

/// What a plan for all volumes rests on.
#[expect(clippy::exhaustive_structs, reason = "facts that callers build")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Facts {
    /// The volumes as they were listed.
    pub volumes: Vec<Volume>,
    /// The claims as they were listed, or why they were not.
    pub claims: Result<Vec<Claim>, StoreError>,
    /// The pods, for volumes that are to be emptied, or why they are not known.
    pub pods: Result<Vec<Pod>, StoreError>,
    /// The volumes as they were read right before.
    pub read_volumes: Reads<Volume>,
    /// The claims as they were read right before, under the namespaces, names and uids that volumes name.
    pub read_claims: Reads<Claim>,
    /// Who deletes or empties what is behind each volume, by the volume's name. A provisioner whose name does not begin with `kubernetes.io/`
    /// is taken to delete its volumes itself where nothing is said here.
    pub plugins: BTreeMap<Arc<str>, Plugin>,
}

impl Facts {
    /// Facts without anything read right before.
    #[must_use]
    pub fn new(volumes: Vec<Volume>, claims: Vec<Claim>, pods: Vec<Pod>) -> Self {
        Self {
            volumes,
            claims: Ok(claims),
            pods: Ok(pods),
            read_volumes: Reads::default(),
            read_claims: Reads::default(),
            plugins: BTreeMap::new(),
        }
    }
}

/// What a plan amounts to.
#[expect(clippy::exhaustive_structs, reason = "counts that callers read")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// Volumes that are deleted.
    pub deleted: usize,
    /// Volumes that are emptied.
    pub recycled: usize,
    /// Volumes that stay because something is not known.
    pub undecided: usize,
}

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans one pass for each volume, by name and uid. Time plays no part.
    ///
    /// Each volume is either deleted by its last action or kept with the reason for which its pass ends, whatever was done to it before. Of
    /// the versions that actions expect, only those of the first write to a volume are known. A write that the API server is bound
    /// to refuse is not planned.
    ///
    /// A plan foresees that plugins succeed; it does not look. To act on a cluster, drive a [`Pass`] for each volume.
    ///
    /// # Complexity
    /// O(n log n) in the number of volumes, claims and volumes of pods.
    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let index = Index::new(facts);
        let mut plan = PlanOf::<Self>::default();
        for (object, volume) in
            by_identity(Resource::PersistentVolumes, &facts.volumes, |volume| &volume.meta)
        {
            let ending = match volume {
                None => Ending::Kept(Reason::ListedTwice),
                Some(volume) => self.foresee(volume, &object, &index, &mut plan.actions),
            };
            let (Ending::Kept(reason) | Ending::Failed(reason)) = ending else {
                plan.summary.deleted += 1;
                continue;
            };
            plan.summary.recycled += usize::from(reason == Reason::Recycled);
            plan.summary.undecided += usize::from(is_undecided(&reason));
            plan.kept.push(Kept { object, reason });
        }
        plan
    }
}

impl Settings {
    /// Goes through one pass and gathers its actions.
    fn foresee(
        &self,
        volume: &Volume,
        object: &Object,
        index: &Index<'_>,
        actions: &mut Vec<Action>,
    ) -> Ending {
        let known = Known {
            volume: volume.clone(),
            claim: index.listed(volume.claim_ref.claim()),
            users: index.users(volume.claim_ref.claim()),
        };
        let begun = actions.len();
        let mut pass = Pass::new(self.clone(), known);
        let mut answer = None;
        // A pass ends within its stated number of steps.
        loop {
            answer = Some(match pass.next(answer.take()) {
                Step::Done(ending) => return ending,
                Step::ReadClaim(claim) => match index.read_claim(&claim) {
                    Some(answer) => answer,
                    None => return Ending::Kept(Reason::ClaimNotRead),
                },
                Step::ReadVolume => match index.read_volume(object, pass.volume(), &actions[begun..]) {
                    Some(answer) => answer,
                    None => return Ending::Kept(Reason::VolumeNotRead),
                },
                Step::FindPlugin(operation) => Answer::Plugin(index.plugin(volume, operation)),
                Step::Perform(action) if is_forbidden(&action, volume) => {
                    return Ending::Failed(Reason::FinalizerForbidden);
                }
                Step::Perform(action) => {
                    actions.push(action);
                    Answer::Done
                }
            });
        }
    }
}

/// The API server lets nobody add a finalizer to an object that is being deleted.
fn is_forbidden(action: &Action, volume: &Volume) -> bool {
    let Action::Update { changes, .. } = action else {
        return false;
    };
    let adds = changes
        .iter()
        .any(|change| matches!(change, Change::AddFinalizer(_)));
    adds && volume.meta.is_deleting()
}

const fn is_undecided(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::ClaimNotRead
            | Reason::VolumeNotRead
            | Reason::ListedTwice
            | Reason::ReadFailed { .. }
            | Reason::IdentityUnknown
            | Reason::ClaimRefUnknown
            | Reason::AnnotationsUnknown
            | Reason::PhaseUnknown
            | Reason::PolicyUnknown
            | Reason::MigrationUnknown
            | Reason::PluginUnknown
            | Reason::PodsUnknown { .. }
    )
}

/// The facts by what they are looked up by.
struct Index<'a> {
    facts: &'a Facts,
    /// What is listed twice and not alike is `None`.
    claims: Option<BTreeMap<Key<'a>, Option<&'a Claim>>>,
    users: Result<Users<'a>, &'a StoreError>,
    /// The namespaces with pods that may use any claim, because their volumes were not read.
    unread: BTreeSet<&'a str>,
}

type Key<'a> = (&'a str, &'a str);
/// The pods of each claim, by its namespace and name.
type Users<'a> = BTreeMap<(&'a str, Arc<str>), BTreeSet<Arc<str>>>;

impl<'a> Index<'a> {
    fn new(facts: &'a Facts) -> Self {
        let claims = facts.claims.as_ref().ok().map(|claims| {
            let mut by_name = BTreeMap::<Key<'a>, Option<&'a Claim>>::new();
            for claim in claims {
                let key = (&*claim.meta.namespace, &*claim.meta.name);
                let seen = by_name.entry(key).or_insert(Some(claim));
                if *seen != Some(claim) {
                    *seen = None;
                }
            }
            by_name
        });
        let users = facts.pods.as_ref().map(|pods| {
            let mut by_claim = Users::new();
            for pod in pods.iter().filter(|pod| !pod.is_terminated()) {
                let namespace = &*pod.meta.namespace;
                let user: Arc<str> = format!("{namespace}/{}", pod.meta.name).into();
                for (claim, _) in pod.claim_names() {
                    let users = by_claim.entry((namespace, claim)).or_default();
                    users.insert(Arc::clone(&user));
                }
            }
            by_claim
        });
        let pods = facts.pods.as_deref().unwrap_or_default().iter();
        let unread = pods.filter(|pod| !pod.is_terminated() && pod.volumes.is_none());
        let unread = unread.map(|pod| &*pod.meta.namespace).collect();
        Self {
            facts,
            claims,
            users,
            unread,
        }
    }

    fn listed(&self, claim: Option<&ClaimRef>) -> Live<Claim> {
        let (Some(claim), Some(claims)) = (claim, &self.claims) else {
            return Live::NotAsked;
        };
        match claims.get(&(&*claim.namespace, &*claim.name)) {
            None => Live::NotFound,
            Some(None) => Live::NotAsked,
            Some(Some(found)) => Live::Found((*found).clone()),
        }
    }

    fn users(&self, claim: Option<&ClaimRef>) -> Result<Vec<Arc<str>>, StoreError> {
        let by_claim = self.users.as_ref().map_err(|error| (*error).clone())?;
        if claim.is_some_and(|claim| self.unread.contains(&*claim.namespace)) {
            return Err(StoreError::Unlisted);
        }
        let users = claim.and_then(|claim| by_claim.get(&(&*claim.namespace, Arc::clone(&claim.name))));
        Ok(users.into_iter().flatten().cloned().collect())
    }

    /// The answer to a live read of a claim; `None` where nobody has read it.
    fn read_claim(&self, claim: &ClaimRef) -> Option<Answer> {
        match &self.facts.read_claims {
            Reads::AsListed => answer(self.listed(Some(claim)), Answer::Claim),
            Reads::Of(reads) => {
                let object = Object {
                    resource: Resource::PersistentVolumeClaims,
                    namespace: Arc::clone(&claim.namespace),
                    name: Arc::clone(&claim.name),
                    uid: claim.uid.clone(),
                };
                answer(reads.get(&object).cloned().unwrap_or_default(), Answer::Claim)
            }
        }
    }

    /// The answer to a live read of a volume, in which the plan's own writes show.
    fn read_volume(&self, object: &Object, written: &Volume, actions: &[Action]) -> Option<Answer> {
        let reads = match &self.facts.read_volumes {
            Reads::AsListed => return Some(Answer::Volume(written.clone())),
            Reads::Of(reads) => reads,
        };
        let after = |volume: Volume| {
            let after = actions.iter().fold(volume, |volume, action| {
                action.applied_to(&volume).unwrap_or(volume)
            });
            Answer::Volume(after)
        };
        answer(reads.get(object).cloned().unwrap_or_default(), after)
    }

    fn plugin(&self, volume: &Volume, operation: Operation) -> Plugin {
        let told = self.facts.plugins.get(&volume.meta.name).cloned();
        let is_external = volume.provisioner().is_some_and(|name| !name.is_empty())
            && !volume.is_in_tree()
            && operation == Operation::DeleteVolume;
        match told.unwrap_or_default() {
            Plugin::Unknown if is_external => Plugin::External,
            plugin => plugin,
        }
    }
}

fn answer<T>(live: Live<T>, found: impl FnOnce(T) -> Answer) -> Option<Answer> {
    match live {
        Live::NotAsked => None,
        Live::Found(object) => Some(found(object)),
        Live::NotFound => Some(Answer::Failed(StoreError::NotFound)),
        Live::Failed(message) => Some(Answer::Failed(StoreError::Unknown {
            message: message.to_string(),
        })),
    }
}
