//! Somebody beyond the API server, who says what a test wants and notes what was asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use async_trait::async_trait;
use kubegc_core::{Clock as _, StoreError};
use kubegc_lifecycle::{
    driver::{Event, Operated, Outside},
    node::Cloud,
    object::{Object, Operation},
    volume::{external::Guard, reclaim::Plugin},
};
use kubegc_sim::SimClock;

/// What somebody says, and what was asked.
pub(crate) struct Someone {
    pub(crate) clock: SimClock,
    /// What plugins are found, one after another, and the last whenever it is asked again.
    pub(crate) plugins: Mutex<Vec<Plugin>>,
    /// What operations come to, one after another, and the last for all that follow.
    pub(crate) operated: Mutex<Vec<Operated>>,
    /// How long an operation takes.
    pub(crate) takes: Duration,
    pub(crate) guard: Mutex<Guard>,
    /// What the cloud says of the existence of each node, and whether it is shut down. Others it has not.
    pub(crate) nodes: Mutex<BTreeMap<&'static str, (Cloud, Cloud)>>,
    /// What was asked for, with the seconds since the clock began.
    pub(crate) asked: Mutex<Vec<String>>,
    pub(crate) told: Mutex<Vec<Event>>,
    /// How many operations are under way, and how many were at most.
    pub(crate) under_way: Mutex<(usize, usize)>,
}

impl Someone {
    pub(crate) fn new(clock: &SimClock) -> Self {
        Self {
            clock: clock.clone(),
            plugins: Mutex::new(vec![Plugin::Known]),
            operated: Mutex::new(vec![Operated::Done]),
            takes: Duration::ZERO,
            guard: Mutex::new(Guard::Allows),
            nodes: Mutex::default(),
            asked: Mutex::default(),
            told: Mutex::default(),
            under_way: Mutex::default(),
        }
    }

    pub(crate) fn answering(clock: &SimClock, operated: &[Operated]) -> Arc<Self> {
        let mut someone = Self::new(clock);
        someone.operated = Mutex::new(operated.to_vec());
        Arc::new(someone)
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        lock(&self.asked).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no test panics while it holds this")
}

#[async_trait]
impl Outside for Someone {
    async fn find_plugin(&self, _volume: &Object, document: &[u8], _operation: Operation) -> Plugin {
        assert!(!document.is_empty(), "a plugin needs the volume");
        let mut plugins = lock(&self.plugins);
        if plugins.len() > 1 {
            plugins.remove(0)
        } else {
            plugins[0].clone()
        }
    }

    async fn operate(&self, volume: &Object, document: &[u8], operation: Operation) -> Operated {
        let document: serde_json::Value = serde_json::from_slice(document).expect("the volume");
        assert_eq!(document["metadata"]["name"].as_str(), Some(&*volume.name));
        lock(&self.asked).push(format!("{operation:?} {}", volume.name));
        {
            let mut under_way = lock(&self.under_way);
            under_way.0 += 1;
            under_way.1 = under_way.1.max(under_way.0);
        }
        let until = self.clock.now().saturating_add(self.takes);
        self.clock.sleep_until(until).await;
        lock(&self.under_way).0 -= 1;
        let mut operated = lock(&self.operated);
        if operated.len() > 1 {
            operated.remove(0)
        } else {
            operated[0].clone()
        }
    }

    async fn may_delete(&self, volume: &Object, _document: &[u8]) -> Guard {
        lock(&self.asked).push(format!("may {} go", volume.name));
        *lock(&self.guard)
    }

    async fn exists(&self, node: &Object, provider_id: &str) -> Cloud {
        assert_eq!(provider_id, format!("cloud://{}", node.name));
        let nodes = lock(&self.nodes);
        nodes.get(&*node.name).map_or(Cloud::No, |says| says.0.clone())
    }

    async fn is_shut_down(&self, node: &Object, _provider_id: &str) -> Cloud {
        let nodes = lock(&self.nodes);
        nodes.get(&*node.name).map_or(Cloud::No, |says| says.1.clone())
    }

    async fn publish(&self, event: &Event) -> Result<(), StoreError> {
        lock(&self.told).push(event.clone());
        // Nothing hangs on it.
        Err(StoreError::Unknown {
            message: "nobody listens".to_owned(),
        })
    }
}
