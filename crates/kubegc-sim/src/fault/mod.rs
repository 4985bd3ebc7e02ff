//! Faults between a controller and its store: refused calls, lost responses, late watches.

pub mod script;
mod watch;

use std::{collections::VecDeque, future::Future, sync::Arc, time::Duration};

use async_trait::async_trait;
use kubegc_core::{
    ApiResource, Clock, DeleteOptions, ObjectMeta, ObjectStore, PatchType, RequestAttributes, RequestMatcher,
    ResourceVersion, StoreError, WatchStream,
    store::{Address, Deleted, Discovered, MetaList, ObjectList},
};
use parking_lot::Mutex;

use script::{Script, Turn};
use watch::FaultyWatch;

/// A call to an [`ObjectStore`], by method.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    Discover,
    /// `get` and `get_object`
    Get,
    /// `list` and `list_objects`
    List,
    Watch,
    Delete,
    /// `patch` and `patch_subresource`
    Patch,
    /// `replace_finalizers` and `replace_subresource`
    Replace,
    DeleteCollection,
}

impl Call {
    /// The verb that rules match.
    const fn verb(self) -> &'static str {
        match self {
            Self::Discover => "discover",
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Delete => "delete",
            Self::Patch => "patch",
            Self::Replace => "update",
            Self::DeleteCollection => "deletecollection",
        }
    }
}

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

/// One rule of a script. It skips some matching calls and then injects a fault into some.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Matching calls; `None` means all.
    pub call: Option<Call>,
    /// Plural name of the resource; `None` means all.
    pub resource: Option<Arc<str>>,
    /// Name of the object; `None` means all.
    pub name: Option<Arc<str>>,
    /// Number of matching calls without a fault before the first one.
    pub skip: u32,
    /// Number of calls that then get the fault.
    pub times: u32,
    pub fault: Fault,
}

impl Rule {
    fn turn(self) -> Turn<RequestMatcher, Fault> {
        let mut matching = RequestMatcher::new();
        if let Some(call) = self.call {
            matching = matching.verb(call.verb());
        }
        if let Some(plural) = self.resource {
            matching = matching.resource("*", &format!("{plural}/*"));
        }
        matching.name = self.name;
        Turn {
            matching,
            skip: self.skip,
            times: self.times,
            fault: self.fault,
        }
    }
}

/// The faults of calls and of watches. The default: none.
///
/// Rules are evaluated first, in order. If none applies, a random draw decides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FaultPlan {
    /// The seed of the draws.
    pub seed: u64,
    /// The script.
    pub rules: Vec<Rule>,
    /// Number of calls of a thousand that get a random fault.
    pub faults_per_mille: u16,
    /// The random faults; one of them is drawn. Empty: none.
    pub faults: Vec<Fault>,
    /// Number of changes of a thousand that are delivered twice.
    pub duplicates_per_mille: u16,
    /// Number of changes of a thousand that are dropped if a newer change of the same object is available.
    pub coalesced_per_mille: u16,
    /// The maximum delay of a change; needs a clock.
    pub watch_delay_max: Duration,
}

/// A store with faults.
///
/// # Examples
/// ```
/// use kubegc_core::{Catalog, KubernetesVersion};
/// use kubegc_sim::{ApiServer, FaultPlan, Faulty, SharedApiServer, fault::{Call, Fault, Rule}};
/// let server = ApiServer::new(KubernetesVersion::LATEST, Catalog::builtin(KubernetesVersion::LATEST));
/// let rule = Rule {
///     call: Some(Call::Delete), resource: Some("pods".into()), name: None,
///     skip: 1, times: 1, fault: Fault::LoseResponse,
/// };
/// let store = Faulty::new(SharedApiServer::new(server), FaultPlan { rules: vec![rule], ..FaultPlan::default() });
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
        let mut script = Script::default();
        script.draw(plan.seed, plan.faults_per_mille, plan.faults.clone());
        plan.rules.iter().for_each(|rule| script.add(rule.clone().turn()));
        Self {
            store,
            plan,
            script: Arc::new(Mutex::new(script)),
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
    fn fault(&self, call: Call, Place(resource, name): Place<'_>) -> Option<Fault> {
        let request = RequestAttributes {
            verb: call.verb(),
            resource,
            name,
            ..RequestAttributes::default()
        };
        let mut script = self.script.lock();
        script.next(|turn| turn.matching.matches(&request), true, |_| true)
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
        call: Call,
        place: Place<'_>,
        work: impl Future<Output = Result<T, StoreError>> + Send,
    ) -> Result<T, StoreError> {
        match self.fault(call, place) {
            None => work.await,
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::LoseResponse) => {
                let result = work.await;
                let outcome = if result.is_ok() { "performed" } else { "refused" };
                Err(StoreError::Unknown {
                    message: format!("the response was lost (the call was {outcome})"),
                })
            }
        }
    }
}

/// Implements calls with faults: each method with its addressed object or resource, its other arguments, its
/// result and its verb. Methods that open watches follow in braces.
macro_rules! with_faults {
    ({ $($other:tt)* } $(
        $method:ident($($place:ident: $of:ty)? $(, $arg:ident: $ty:ty)*) -> $result:ty = $call:ident;
    )*) => {
        #[async_trait]
        impl<S: ObjectStore> ObjectStore for Faulty<S> {
            $(
                async fn $method(
                    &self,
                    $($place: $of,)?
                    $($arg: $ty),*
                ) -> Result<$result, StoreError> {
                    let work = self.store.$method($($place,)? $($arg),*);
                    let place: Place<'_> = ($($place)?).into();
                    self.through(Call::$call, place, work).await
                }
            )*
            $($other)*
        }
    };
}

with_faults! {
    {
        async fn watch(
            &self,
            resource: &ApiResource,
            since: &ResourceVersion,
        ) -> Result<Box<dyn WatchStream>, StoreError> {
            let work = self.store.watch(resource, since);
            let stream = self.through(Call::Watch, resource.into(), work).await?;
            Ok(Box::new(self.faulty(stream)))
        }

        async fn watch_objects(
            &self,
            resource: &ApiResource,
            since: &ResourceVersion,
        ) -> Result<Box<dyn WatchStream<Vec<u8>>>, StoreError> {
            let work = self.store.watch_objects(resource, since);
            let stream = self.through(Call::Watch, resource.into(), work).await?;
            Ok(Box::new(self.faulty(stream)))
        }
    }
    discover() -> Discovered = Discover;
    get(address: Address<'_>) -> ObjectMeta = Get;
    get_object(address: Address<'_>) -> Vec<u8> = Get;
    list(resource: &ApiResource, namespace: Option<&str>) -> MetaList = List;
    list_objects(resource: &ApiResource, namespace: Option<&str>) -> ObjectList = List;
    list_for_watch(resource: &ApiResource, at_least: &ResourceVersion) -> MetaList = List;
    delete(address: Address<'_>, options: &DeleteOptions) -> Deleted = Delete;
    delete_collection(
        resource: &ApiResource, namespace: &str, options: &DeleteOptions
    ) -> () = DeleteCollection;
    patch(address: Address<'_>, format: PatchType, body: &[u8]) -> ObjectMeta = Patch;
    patch_subresource(
        address: Address<'_>, subresource: &str, format: PatchType, body: &[u8]
    ) -> ObjectMeta = Patch;
    replace_finalizers(
        address: Address<'_>, read_at: &ResourceVersion, finalizers: &[Arc<str>]
    ) -> ObjectMeta = Replace;
    replace_subresource(address: Address<'_>, subresource: &str, body: &[u8]) -> ObjectMeta = Replace;
}

/// The plural name of the resource of a call, and the name of its object; empty where it has none.
struct Place<'a>(&'a str, &'a str);

impl From<()> for Place<'_> {
    fn from((): ()) -> Self {
        Self("", "")
    }
}

impl<'a> From<&'a ApiResource> for Place<'a> {
    fn from(resource: &'a ApiResource) -> Self {
        Self(&resource.resource, "")
    }
}

impl<'a> From<Address<'a>> for Place<'a> {
    fn from(address: Address<'a>) -> Self {
        Self(&address.resource.resource, address.name)
    }
}
