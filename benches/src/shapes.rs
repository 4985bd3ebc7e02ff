//! The clusters on which upstream's figures were measured, from a fixed seed.

use std::sync::Arc;

use kubegc::core::{ObjectMeta, OwnerReference, Uid};

/// A small fast generator of random numbers: xorshift, seeded.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator with this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed ^ 0x9e37_79b9_7f4a_7c15)
    }

    /// The next number.
    pub const fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below a bound.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    /// A random UUID.
    pub fn uid(&mut self) -> Uid {
        let bits = u128::from(self.next()) << 64 | u128::from(self.next());
        Uid::from_uuid(bits.to_be_bytes())
    }

    /// Shuffles a slice.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for at in (1..items.len()).rev() {
            items.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// The kind of an object in the shapes, with its apiVersion.
pub type Kind = (&'static str, &'static str);

/// The Deployments of the shapes.
pub const DEPLOYMENT: Kind = ("apps/v1", "Deployment");
/// The ReplicaSets of the shapes.
pub const REPLICA_SET: Kind = ("apps/v1", "ReplicaSet");
/// The ConfigMaps of the shapes.
pub const CONFIG_MAP: Kind = ("v1", "ConfigMap");
/// The Pods of the shapes.
pub const POD: Kind = ("v1", "Pod");

/// A reference to an object of the shapes, controller and blocking.
pub fn controlled_by(kind: Kind, owner: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: kind.0.into(),
        kind: kind.1.into(),
        name: Arc::clone(&owner.name),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

/// The cluster shape: units of 20 objects, owners first.
///
/// A unit is a Deployment, its ReplicaSet, 7 ConfigMaps and 11 Pods of the ReplicaSet. Every tenth pod
/// overall is also owned by the last ConfigMap of its unit.
pub fn cluster(objects: usize) -> Vec<(Kind, Arc<ObjectMeta>)> {
    let mut random = Random::new(1);
    let mut all = Vec::with_capacity(objects);
    let mut pods = 0;
    for unit in 0..objects.div_ceil(20) {
        let namespace: Arc<str> = format!("team-{:03}", unit % 100).into();
        let object = |name: String, uid: Uid, owners: Vec<OwnerReference>| ObjectMeta {
            namespace: Arc::clone(&namespace),
            name: name.into(),
            uid,
            owner_references: owners.into_iter().collect(),
            resource_version: "1".into(),
            ..ObjectMeta::new("", "", "")
        };
        let deployment = object(format!("app-{unit:06}"), random.uid(), Vec::new());
        let owner = controlled_by(DEPLOYMENT, &deployment);
        let replica_set = object(format!("app-{unit:06}-7d9f8b6c5d"), random.uid(), vec![owner]);
        let set_owner = controlled_by(REPLICA_SET, &replica_set);
        let maps: Vec<ObjectMeta> = (0..7)
            .map(|at| object(format!("app-{unit:06}-config-{at}"), random.uid(), Vec::new()))
            .collect();
        let map_owner = OwnerReference {
            controller: None,
            ..controlled_by(CONFIG_MAP, &maps[6])
        };
        all.push((DEPLOYMENT, Arc::new(deployment)));
        all.push((REPLICA_SET, Arc::new(replica_set)));
        all.extend(maps.into_iter().map(|map| (CONFIG_MAP, Arc::new(map))));
        for at in 0..11 {
            pods += 1;
            let mut owners = vec![set_owner.clone()];
            if pods % 10 == 0 {
                owners.push(map_owner.clone());
            }
            // The index makes names unique within a unit: two pods of one name would be one object.
            let suffix = random.below(36u64.pow(4) / 11) * 11 + at;
            let name = format!("app-{unit:06}-7d9f8b6c5d-{suffix:05x}");
            all.push((POD, Arc::new(object(name, random.uid(), owners))));
        }
    }
    all.truncate(objects);
    all
}

/// One owner and its dependents, which have no dependents of their own.
pub fn fan_out(dependents: usize) -> (Arc<ObjectMeta>, Vec<Arc<ObjectMeta>>) {
    let mut random = Random::new(2);
    let root = ObjectMeta {
        uid: random.uid(),
        resource_version: "1".into(),
        ..ObjectMeta::new("team-000", "root", "")
    };
    let owner = controlled_by(CONFIG_MAP, &root);
    let all = (0..dependents)
        .map(|at| {
            Arc::new(ObjectMeta {
                uid: random.uid(),
                resource_version: "2".into(),
                owner_references: [owner.clone()].into_iter().collect(),
                ..ObjectMeta::new("team-000", &format!("root-7d9f8b6c5d-{at:06}"), "")
            })
        })
        .collect();
    (Arc::new(root), all)
}
