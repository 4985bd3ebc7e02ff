//! Faults between a controller and its store: refused calls, lost responses, late watches.

pub mod script;

use std::{
    collections::VecDeque,
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use async_trait::async_trait;
use kubegc_core::{
    ApiResource, Clock, DeleteOptions, ObjectMeta, ObjectStore, PatchType, RequestAttributes, RequestMatcher,
    ResourceVersion, StoreError, Timestamp, WatchStream,
    deletion::Deleted,
    store::{Address, Discovered, MetaList, ObjectList, WatchItem},
};
use parking_lot::Mutex;

use script::{Plan, Script, Turn};

/// The fault of one call.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The call fails with an error and is not performed.
    Refuse(StoreError),
    /// The call is performed and its response is lost: the caller gets [`StoreError::Unknown`].
    LoseResponse,
}

impl Fault {
    /// The fault for a response with this status code; `None` for codes that are not errors.
    ///
    /// A 5xx does not say whether the write was performed: here it was not. [`Fault::LoseResponse`] is the
    /// other case.
    pub fn of_code(code: u16) -> Option<Self> {
        let retry_after = (code == 429).then_some(Duration::from_secs(1));
        if !(400..600).contains(&code) {
            return None;
        }
        let error = StoreError::from_status(code, format!("injected {code}"), retry_after);
        Some(Self::Refuse(error))
    }
}

/// One rule of a script. The verbs of calls are those of requests: `get_object` is a `get`, `list_objects` a
/// `list`, `patch_subresource` a `patch`, and `replace_finalizers` and `replace_subresource` are an `update`.
/// Discovery is `discover`.
pub type Rule = Turn<RequestMatcher, Fault>;

/// The faults of calls and of watches. The default: none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FaultPlan {
    pub calls: Plan<RequestMatcher, Fault>,
    /// Number of changes of a thousand that are delivered twice.
    pub duplicates_per_mille: u16,
    /// The maximum delay of a change; needs a clock.
    pub watch_delay_max: Duration,
}

/// A store with faults.
///
/// # Examples
/// ```
/// use kubegc_core::{Catalog, KubernetesVersion, RequestMatcher};
/// use kubegc_sim::{ApiServer, FaultPlan, Faulty, SharedApiServer, fault::{Fault, Rule}};
/// let server = ApiServer::new(KubernetesVersion::LATEST, Catalog::builtin(KubernetesVersion::LATEST));
/// let rule = Rule {
///     matching: RequestMatcher::new().verb("delete").resource("", "pods"),
///     skip: 1, times: 1, fault: Fault::LoseResponse,
/// };
/// let mut plan = FaultPlan::default();
/// plan.calls.rules.push(rule);
/// let store = Faulty::new(SharedApiServer::new(server), plan);
/// assert_eq!(store.injected(), 0);
/// ```
pub struct Faulty<S> {
    store: S,
    plan: FaultPlan,
    script: Arc<Mutex<Script<RequestMatcher, Fault>>>,
    clock: Option<Arc<dyn Clock>>,
}

impl<S: std::fmt::Debug> std::fmt::Debug for Faulty<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Faulty")
            .field("store", &self.store)
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl<S> Faulty<S> {
    /// Puts faults between callers and a store.
    pub fn new(store: S, plan: FaultPlan) -> Self {
        Self {
            store,
            script: Arc::new(Mutex::new(Script::new(plan.calls.clone()))),
            plan,
            clock: None,
        }
    }

    /// Sets the clock for delayed watches.
    #[must_use]
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// The store behind the faults.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Number of injected faults.
    pub fn injected(&self) -> u64 {
        self.script.lock().injected()
    }

    /// The fault of this call, if any.
    fn fault(&self, request: &RequestAttributes<'_>) -> Option<Fault> {
        let mut script = self.script.lock();
        script.next(|turn| turn.matching.matches(request), true, |_| true)
    }

    /// Wraps a watch with the faults of the plan.
    fn faulty<T>(&self, stream: Box<dyn WatchStream<T>>) -> FaultyWatch<T> {
        FaultyWatch {
            stream,
            plan: self.plan.clone(),
            script: Arc::clone(&self.script),
            clock: self.clock.clone(),
            held: VecDeque::new(),
            ended: None,
        }
    }

    /// Performs a call or not, and returns its response or an error.
    async fn through<T>(
        &self,
        request: RequestAttributes<'_>,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        match self.fault(&request) {
            None => work.await,
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::LoseResponse) => Err(StoreError::Unknown {
                message: lost(work).await,
            }),
        }
    }
}

/// Performs a call and loses its response. Returns the message of the error.
pub(crate) async fn lost<T, E>(work: impl Future<Output = Result<T, E>> + Send) -> String {
    let outcome = if work.await.is_ok() {
        "performed"
    } else {
        "refused"
    };
    format!("the response was lost (the call was {outcome})")
}

/// Implements a trait by calls with faults: each method with its arguments, its result, and what rules match.
/// Other methods are in braces.
macro_rules! with_faults {
    ($trait:ident for $faulty:ident by $inner:ident, $error:ident, { $($other:tt)* } $(
        $method:ident($($arg:ident: $ty:ty),*) -> $result:ty = $call:expr;
    )*) => {
        #[async_trait]
        impl<S: $trait> $trait for $faulty<S> {
            $(
                async fn $method(&self, $($arg: $ty),*) -> Result<$result, $error> {
                    let work = self.$inner.$method($($arg),*);
                    self.through($call, work).await
                }
            )*
            $($other)*
        }
    };
}
pub(crate) use with_faults;

with_faults! {
    ObjectStore for Faulty by store, StoreError,
    {
        async fn watch(
            &self,
            resource: &ApiResource,
            since: &ResourceVersion,
        ) -> Result<Box<dyn WatchStream>, StoreError> {
            let work = self.store.watch(resource, since);
            let stream = self.through(on("watch", resource), work).await?;
            Ok(Box::new(self.faulty(stream)))
        }

        async fn watch_objects(
            &self,
            resource: &ApiResource,
            since: &ResourceVersion,
        ) -> Result<Box<dyn WatchStream<Vec<u8>>>, StoreError> {
            let work = self.store.watch_objects(resource, since);
            let stream = self.through(on("watch", resource), work).await?;
            Ok(Box::new(self.faulty(stream)))
        }
    }
    discover() -> Discovered = RequestAttributes { verb: "discover", ..RequestAttributes::default() };
    get(address: Address<'_>) -> ObjectMeta = at("get", address);
    get_object(address: Address<'_>) -> Vec<u8> = at("get", address);
    list(resource: &ApiResource, namespace: Option<&str>) -> MetaList = on("list", resource);
    list_objects(resource: &ApiResource, namespace: Option<&str>) -> ObjectList = on("list", resource);
    list_for_watch(resource: &ApiResource, at_least: &ResourceVersion) -> MetaList = on("list", resource);
    delete(address: Address<'_>, options: &DeleteOptions) -> Deleted = at("delete", address);
    delete_collection(
        resource: &ApiResource, namespace: &str, options: &DeleteOptions
    ) -> () = on("deletecollection", resource);
    patch(address: Address<'_>, format: PatchType, body: &[u8]) -> ObjectMeta = at("patch", address);
    patch_subresource(
        address: Address<'_>, subresource: &str, format: PatchType, body: &[u8]
    ) -> ObjectMeta = at("patch", address);
    replace_finalizers(
        address: Address<'_>, read_at: &ResourceVersion, finalizers: &[Arc<str>]
    ) -> ObjectMeta = at("update", address);
    replace_subresource(
        address: Address<'_>, subresource: &str, body: &[u8]
    ) -> ObjectMeta = at("update", address);
}

fn on<'a>(verb: &'a str, resource: &'a ApiResource) -> RequestAttributes<'a> {
    RequestAttributes {
        verb,
        group: &resource.group,
        resource: &resource.resource,
        ..RequestAttributes::default()
    }
}

fn at<'a>(verb: &'a str, address: Address<'a>) -> RequestAttributes<'a> {
    RequestAttributes {
        namespace: address.namespace,
        name: address.name,
        ..on(verb, address.resource)
    }
}

/// A watch that delays and repeats changes, but never reorders them.
struct FaultyWatch<T> {
    stream: Box<dyn WatchStream<T>>,
    plan: FaultPlan,
    script: Arc<Mutex<Script<RequestMatcher, Fault>>>,
    clock: Option<Arc<dyn Clock>>,
    /// Received from the stream and not yet delivered, each with its earliest delivery time.
    held: VecDeque<(Option<Timestamp>, WatchItem<T>)>,
    /// The end of the stream, which is returned after all held changes are delivered.
    ended: Option<Option<StoreError>>,
}

impl<T: Clone> FaultyWatch<T> {
    /// Receives the available items of the stream. Waits only if no item is held.
    async fn fill(&mut self) {
        while self.ended.is_none() {
            let wait = self.held.is_empty();
            let next = {
                let mut next = pin!(self.stream.next());
                poll_fn(|context| match next.as_mut().poll(context) {
                    Poll::Ready(item) => Poll::Ready(Some(item)),
                    Poll::Pending if wait => Poll::Pending,
                    Poll::Pending => Poll::Ready(None),
                })
                .await
            };
            match next {
                None => return,
                Some(Some(Ok(item))) => self.hold(item),
                Some(Some(Err(error))) => self.ended = Some(Some(error)),
                Some(None) => self.ended = Some(None),
            }
        }
    }

    fn hold(&mut self, item: WatchItem<T>) {
        let mut script = self.script.lock();
        let rng = script.rng();
        let micros = u64::try_from(self.plan.watch_delay_max.as_micros()).unwrap_or(u64::MAX);
        let due = self.clock.as_ref().filter(|_| micros > 0).map(|clock| {
            let delay = Duration::from_micros(rng.below(micros.saturating_add(1)));
            clock.now().saturating_add(delay)
        });
        let twice = rng.chance(self.plan.duplicates_per_mille);
        if twice {
            self.held.push_back((due, item.clone()));
        }
        self.held.push_back((due, item));
    }
}

#[async_trait]
impl<T: Clone + Send> WatchStream<T> for FaultyWatch<T> {
    async fn next(&mut self) -> Option<Result<WatchItem<T>, StoreError>> {
        self.fill().await;
        if let (Some((Some(due), _)), Some(clock)) = (self.held.front(), &self.clock) {
            clock.sleep_until(*due).await;
        }
        if let Some((_, item)) = self.held.pop_front() {
            return Some(Ok(item));
        }
        // Returned once; later calls return the end.
        match self.ended.replace(None) {
            Some(Some(error)) => Some(Err(error)),
            _ => None,
        }
    }
}
