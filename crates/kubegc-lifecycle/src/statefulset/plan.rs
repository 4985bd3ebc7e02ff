//! Finds the claims of all sets, and decides for each pod's claims together.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kubegc_core::{Kept, ObjectMeta, PlanOf, Planner, StoreError, Timestamp};

use super::{
    Action, Facts, Reason, Retention, Settings, StatefulSet,
    owners::{Standing, names_former_pod, standing},
};
use crate::object::{Object, Resource, by_identity, expected};

/// What a plan amounts to.
#[expect(clippy::exhaustive_structs, reason = "a result that callers read")]
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Summary {
    /// The pods that are not created for now, in order, each once for each claim that it waits for.
    pub blocked: Vec<Blocked>,
}

/// A pod that is not created while its claim waits for collection.
#[expect(clippy::exhaustive_structs, reason = "a result that callers read")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Blocked {
    /// The set.
    pub set: Object,
    /// The pod's ordinal.
    pub ordinal: i32,
    /// The claim.
    pub claim: Object,
}

impl Planner for Settings {
    type Facts = Facts;
    type Action = Action;
    type Object = Object;
    type Reason = Reason;
    type Summary = Summary;

    /// Plans for all claims. Each is written or kept, once, and so is each whose read failed; beside that, sets are warned. Where claims are not known, the sets are kept.
    ///
    /// Time plays no part. What is not there yet is looked for at the next plan.
    ///
    /// # Complexity
    /// O(n log n) in the number of sets, their templates, pods and claims.
    fn plan(&self, facts: &Facts, _now: Timestamp) -> PlanOf<Self> {
        let mut plan = PlanOf::<Self>::default();
        let sets = by_identity(Resource::StatefulSets, &facts.sets, |set| &set.meta);
        let claims = match &facts.claims {
            Ok(claims) => by_identity(Resource::PersistentVolumeClaims, claims, |meta| meta),
            Err(error) => {
                let reason = Reason::ClaimsUnknown {
                    message: error.to_string(),
                };
                plan.kept = sets
                    .into_keys()
                    .map(|object| kept(object, reason.clone()))
                    .collect();
                return plan;
            }
        };
        plan.findings.extend(odd_sets(&sets));
        let templates = templates(&sets);
        let pods = Pods::new(&facts.pods);
        let mut groups = BTreeMap::<Turn<'_>, Group<'_>>::new();
        let unread = unread(facts, &claims);
        for claim in &unread {
            let places = places(&templates, claim);
            let object = Object::new(Resource::PersistentVolumeClaims, claim);
            let reason = match self.find(object.clone(), Some(claim), places, &pods, &mut plan) {
                Ok((found, _, _)) => reason_unread(facts, claim, &found.pod.name),
                Err(reason) => Some(reason),
            };
            plan.kept.extend(reason.map(|reason| kept(object, reason)));
        }
        for (object, claim) in claims {
            let places = claim.map_or(&[][..], |claim| places(&templates, claim));
            match self.find(object.clone(), claim, places, &pods, &mut plan) {
                Ok((turn, template, claim)) => {
                    let group = groups.entry(turn.at).or_insert_with(|| Group {
                        set: turn.set,
                        pod: turn.pod,
                        claims: BTreeMap::new(),
                    });
                    group.claims.insert((template, object), claim);
                }
                Err(reason) => plan.kept.push(kept(object, reason)),
            }
        }
        for (turn, group) in groups {
            self.decide(facts, turn, &group, &mut plan);
        }
        plan.summary.blocked.sort_unstable();
        plan.kept
            .sort_unstable_by(|a, b| (&a.object, &a.reason).cmp(&(&b.object, &b.reason)));
        plan
    }
}

/// The claims whose read failed and that are not listed either. Of their metadata only the names are known.
fn unread(facts: &Facts, claims: &BTreeMap<Object, Option<&ObjectMeta>>) -> Vec<ObjectMeta> {
    let listed: BTreeSet<(&str, &str)> = claims
        .keys()
        .map(|object| (&*object.namespace, &*object.name))
        .collect();
    let names = facts.failed_claims.keys();
    let unread = names.filter(|(namespace, name)| !listed.contains(&(&**namespace, &**name)));
    unread
        .map(|(namespace, name)| ObjectMeta::new(namespace, name, ""))
        .collect()
}

/// Why nothing can be said of a claim of this pod, if its read failed.
fn reason_unread(facts: &Facts, claim: &ObjectMeta, pod: &Arc<str>) -> Option<Reason> {
    let key = (Arc::clone(&claim.namespace), Arc::clone(&claim.name));
    let message = facts.failed_claims.get(&key)?;
    Some(Reason::ClaimUnread {
        claim: Arc::clone(&claim.name),
        pod: Arc::clone(pod),
        message: Arc::clone(message),
    })
}

const fn kept(object: Object, reason: Reason) -> Kept<Object, Reason> {
    Kept { object, reason }
}

/// When a pod's claims are looked at: set by set, those that are scaled away first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Turn<'a> {
    set: &'a Object,
    is_in_range: bool,
    ordinal: i32,
}

/// A pod with its turn.
struct Found<'a> {
    at: Turn<'a>,
    set: &'a StatefulSet,
    pod: &'a ObjectMeta,
}

/// The claims of one pod, by the place of their template.
struct Group<'a> {
    set: &'a StatefulSet,
    pod: &'a ObjectMeta,
    claims: BTreeMap<(usize, Object), &'a ObjectMeta>,
}

/// A set with a template of it.
#[derive(Clone, Copy)]
struct Place<'a> {
    object: &'a Object,
    set: &'a StatefulSet,
    template: usize,
}

type Sets<'a> = BTreeMap<Object, Option<&'a StatefulSet>>;
/// Places by namespace and by what the names of their claims begin with.
type Templates<'a> = BTreeMap<(&'a str, String), Vec<Place<'a>>>;

fn templates<'a>(sets: &'a Sets<'a>) -> Templates<'a> {
    let mut templates = Templates::new();
    for (object, set) in sets.iter().filter_map(|(object, set)| Some((object, (*set)?))) {
        for (template, name) in set.templates.iter().enumerate() {
            let place = Place {
                object,
                set,
                template,
            };
            let key = (&*set.meta.namespace, format!("{name}-{}", set.meta.name));
            let places = templates.entry(key).or_default();
            // A second template of one name stands for the same claim.
            if places.last().is_none_or(|last| last.object != object) {
                places.push(place);
            }
        }
    }
    templates
}

fn places<'t, 'a>(templates: &'t Templates<'a>, claim: &'t ObjectMeta) -> &'t [Place<'a>] {
    let Some((base, _)) = split(&claim.name) else {
        return &[];
    };
    let key = (&*claim.namespace, base.to_owned());
    templates.get(&key).map_or(&[], Vec::as_slice)
}

/// Splits `<base>-<ordinal>`, where the ordinal is written as Kubernetes writes it.
fn split(name: &str) -> Option<(&str, i32)> {
    let (base, digits) = name.rsplit_once('-')?;
    let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_padded = digits.len() > 1 && digits.starts_with('0');
    let ordinal = digits.parse().ok()?;
    (is_plain && !is_padded).then_some((base, ordinal))
}

fn odd_sets<'a>(sets: &'a Sets<'a>) -> impl Iterator<Item = Kept<Object, Reason>> + 'a {
    sets.iter().filter_map(|(object, set)| {
        let reason = match set {
            None => Reason::ListedTwice,
            Some(set) => match (&set.when_scaled, &set.when_deleted) {
                (Retention::Other(text), _) | (_, Retention::Other(text)) => Reason::PolicyUnrecognized {
                    text: Arc::clone(text),
                },
                _ => return None,
            },
        };
        Some(kept(object.clone(), reason))
    })
}

/// The pods by namespace and name.
struct Pods<'a>(Result<BTreeMap<(&'a str, &'a str), Vec<&'a ObjectMeta>>, &'a StoreError>);

/// What is known of the pod of a name.
enum PodOf<'a> {
    One(&'a ObjectMeta),
    /// There is one, and another set or nobody controls it.
    Stranger,
    None,
}

impl<'a> Pods<'a> {
    fn new(pods: &'a Result<Vec<ObjectMeta>, StoreError>) -> Self {
        Self(pods.as_ref().map(|pods| {
            let mut by_name = BTreeMap::<_, Vec<&ObjectMeta>>::new();
            for pod in pods {
                let same = by_name.entry((&*pod.namespace, &*pod.name)).or_default();
                if !same.contains(&pod) {
                    same.push(pod);
                }
            }
            by_name
        }))
    }

    fn of(&self, set: &ObjectMeta, name: &str) -> Result<PodOf<'a>, Reason> {
        let by_name = self.0.as_ref().map_err(|error| Reason::PodsUnknown {
            message: error.to_string(),
        })?;
        match by_name.get(&(&*set.namespace, name)).map(Vec::as_slice) {
            None | Some([]) => Ok(PodOf::None),
            Some(&[pod]) => {
                let mut owners = pod.owner_references.iter();
                let controller = owners.find(|owner| owner.controller == Some(true));
                let is_ours = controller.is_some_and(|owner| owner.uid == set.uid);
                Ok(if is_ours { PodOf::One(pod) } else { PodOf::Stranger })
            }
            Some(_) => Err(Reason::PodListedTwice),
        }
    }
}

impl Settings {
    /// Finds the pod whose claim this is, or why there is nothing to do.
    fn find<'a>(
        &self,
        object: Object,
        claim: Option<&'a ObjectMeta>,
        places: &[Place<'a>],
        pods: &Pods<'a>,
        plan: &mut PlanOf<Self>,
    ) -> Result<(Found<'a>, usize, &'a ObjectMeta), Reason> {
        let claim = claim.ok_or(Reason::ListedTwice)?;
        let ordinal = split(&claim.name).map(|(_, ordinal)| ordinal);
        let (Some(ordinal), false) = (ordinal, places.is_empty()) else {
            return Err(Reason::NotOfASet);
        };
        if !self.follows_policy {
            return Err(Reason::PolicyNotFollowed);
        }
        let mut found = None;
        let mut reasons = BTreeSet::new();
        for place in places {
            match place.pod(ordinal, claim, pods) {
                Ok(pod) if found.is_none() => found = Some((pod, place.template, claim)),
                Ok(_) => {
                    let set = place.object.clone();
                    plan.findings
                        .push(kept(object.clone(), Reason::ClaimShared { set }));
                }
                Err(reason) => {
                    if matches!(reason, Reason::BlocksCreation { .. }) {
                        plan.summary.blocked.push(Blocked {
                            set: place.object.clone(),
                            ordinal,
                            claim: object.clone(),
                        });
                    }
                    reasons.insert(reason);
                }
            }
        }
        // The reason of most weight comes last.
        found.ok_or_else(|| {
            let first = reasons.into_iter().max_by_key(Reason::weight);
            first.unwrap_or(Reason::NotOfASet)
        })
    }

    /// Puts the claims of one pod right, all or none: a read that failed ends upstream's look at the pod.
    fn decide(&self, facts: &Facts, turn: Turn<'_>, group: &Group<'_>, plan: &mut PlanOf<Self>) {
        let names = group.set.templates.iter().map(|template| {
            let name = format!("{template}-{}", group.pod.name);
            ObjectMeta::new(&group.pod.namespace, &name, "")
        });
        let mut reasons = names.filter_map(|claim| reason_unread(facts, &claim, &group.pod.name));
        if let Some(reason) = reasons.next() {
            let claims = group.claims.keys().map(|(_, object)| object);
            plan.kept
                .extend(claims.map(|object| kept(object.clone(), reason.clone())));
            return;
        }
        let standings = group.claims.iter().map(|((_, object), claim)| {
            let owners = &claim.owner_references;
            let standing = standing(self, group.set, group.pod, turn.is_in_range, owners);
            let is_stuck =
                matches!(&standing, Standing::Wrong { references, .. } if references[..] == owners[..]);
            let is_wrong = matches!(standing, Standing::Wrong { .. });
            let expect = expected(claim);
            let is_known = expect.uid.is_some() && expect.resource_version.is_some();
            let hindrance = match (is_wrong, is_stuck, is_known) {
                (true, true, _) => Some(Reason::Stuck),
                (true, false, false) => Some(Reason::IdentityUnknown),
                _ => None,
            };
            (object, expect, standing, hindrance)
        });
        let standings: Vec<_> = standings.collect();
        // Upstream warns only when it comes to write for the pod.
        let writes = standings.iter().any(|(_, _, standing, hindrance)| {
            matches!(standing, Standing::Wrong { .. }) && hindrance.is_none()
        });
        for (object, expect, standing, hindrance) in standings {
            let is_foreign = standing.is_foreign();
            let reason = match standing {
                Standing::Wrong {
                    references,
                    is_former,
                    ..
                } if hindrance.is_none() => {
                    let reason = if is_former {
                        Reason::FormerOwner
                    } else if is_foreign {
                        Reason::ForeignController
                    } else {
                        Reason::OwnersUnfit {
                            set: turn.set.clone(),
                            pod: Arc::clone(&group.pod.name),
                        }
                    };
                    plan.actions.push(Action::SetOwners {
                        object: object.clone(),
                        expect,
                        reason,
                        references,
                        warns: is_foreign.then(|| turn.set.clone()),
                    });
                    continue;
                }
                Standing::Wrong { .. } => hindrance.unwrap_or(Reason::Stuck),
                Standing::UpToDate => Reason::UpToDate,
                Standing::Stale => Reason::Stale,
                Standing::Foreign => Reason::ForeignController,
            };
            if is_foreign && writes {
                plan.actions.push(Action::Warn {
                    object: turn.set.clone(),
                    expect: expected(&group.set.meta),
                    reason: Reason::ForeignController,
                    claim: object.clone(),
                });
            }
            plan.kept.push(kept(object.clone(), reason));
        }
    }
}

impl<'a> Place<'a> {
    /// The pod of this place whose claim this is, with its turn.
    fn pod(&self, ordinal: i32, claim: &ObjectMeta, pods: &Pods<'a>) -> Result<Found<'a>, Reason> {
        let set = self.set;
        if set.meta.is_deleting() {
            return Err(Reason::SetBeingDeleted);
        }
        if set.meta.uid.is_empty() {
            return Err(Reason::IdentityUnknown);
        }
        if set.first_ordinal.is_none() {
            return Err(Reason::FirstOrdinalUnknown);
        }
        if set.has_unknown_policy() {
            return Err(Reason::PolicyUnknown);
        }
        let is_in_range = set.has_place_for(ordinal).ok_or(Reason::ReplicasUnknown)?;
        let name = format!("{}-{ordinal}", set.meta.name);
        match pods.of(&set.meta, &name)? {
            PodOf::One(pod) if pod.uid.is_empty() => Err(Reason::IdentityUnknown),
            PodOf::One(pod) => Ok(Found {
                at: Turn {
                    set: self.object,
                    is_in_range,
                    ordinal,
                },
                set,
                pod,
            }),
            PodOf::None
                if is_in_range
                    && *set.policy().0 == Retention::Delete
                    && names_former_pod(&claim.owner_references, &name) =>
            {
                Err(Reason::BlocksCreation { pod: name.into() })
            }
            PodOf::None | PodOf::Stranger => Err(Reason::NoPod),
        }
    }
}

impl Reason {
    /// Which of several reasons, one for each set that may own a claim, is told.
    const fn weight(&self) -> u8 {
        match self {
            Self::BlocksCreation { .. } => 3,
            Self::PodsUnknown { .. }
            | Self::PodListedTwice
            | Self::ReplicasUnknown
            | Self::FirstOrdinalUnknown
            | Self::PolicyUnknown
            | Self::IdentityUnknown => 2,
            Self::NoPod => 1,
            _ => 0,
        }
    }
}
