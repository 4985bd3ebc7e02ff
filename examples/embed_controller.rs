//! How do I embed one controller, with protected objects and a limit on deletions? Wrap its planner, or guard
//! its driver.
//!
//! `cargo run -p kubegc-examples --example embed_controller`
//!
//! Four Jobs have outlived their TTL. Prints `expected/embed_controller.txt`.
#![expect(clippy::print_stdout, reason = "an example")]

use std::{
    error::Error,
    future::pending,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use kubegc::controllers::{
    BatchPlanner, Cache, Controller as _, Documents as _, Reason, Request, TtlAfterFinished,
    driver::{Driver, NothingOutside, Performer, Report, Resources, execute},
    protected_by_label,
};
use kubegc::core::{Catalog, KubernetesVersion, ObjectStore as _, Planner as _, Timestamp};
use kubegc::sim::{ApiServer, Manifest, SharedApiServer, SimClock};
use kubegc::snapshot::JsonDocuments;

const VERSION: KubernetesVersion = KubernetesVersion::LATEST;
const LABEL: &str = "example.com/keep";
const DELETIONS_MAX: usize = 2;

fn main() -> Result<(), Box<dyn Error>> {
    let now = Timestamp::parse("2026-01-01T12:00:00Z")?;
    let store = SharedApiServer::new(cluster()?);
    println!("# A plan, and its dry run");
    block_on(plan(&store, now))?;
    println!("# The driver");
    block_on(drive(&store, now));
    Ok(())
}

/// Plans with wrappers, and shows what would be sent.
async fn plan(store: &SharedApiServer, now: Timestamp) -> Result<(), Box<dyn Error>> {
    let controller = TtlAfterFinished::new(VERSION);
    let documents = JsonDocuments::default();
    let resources = Resources::new(&store.discover().await?);

    // The facts: all objects of the resources that the controller reads.
    let needed = controller.info().resources.iter().copied();
    let mut cache = Cache::new(needed.clone(), controller.info().indexes.iter().copied());
    for resource in needed {
        let list = store.list_objects(resources.find(resource)?, None).await?;
        let records = list.items.iter().map(|item| documents.read(resource, item));
        cache.set_listed(resource, Ok(()));
        cache.replace(resource, records.collect::<Result<_, _>>()?);
    }

    let planner = BatchPlanner::new(controller)
        .protect(protected_by_label(LABEL))
        .limit_deletions(DELETIONS_MAX);
    let plan = planner.plan(&cache, now);
    print!("{plan}");

    let performer = Performer {
        store,
        documents: &documents,
        outside: &NothingOutside,
        resources: &resources,
    };
    for executed in execute(plan.actions, &performer, true).await {
        println!("{executed}");
    }
    Ok(())
}

/// Runs the driver, which calls the guard before each write.
async fn drive(store: &SharedApiServer, now: Timestamp) {
    let (is_protected, mut left) = (protected_by_label(LABEL), DELETIONS_MAX);
    let guard = move |cache: &Cache, request: &Request| {
        // An object that is not known is protected too.
        if request.object().is_none_or(|object| is_protected(cache, object)) {
            return Err(Reason::new("Protected", "it is protected"));
        }
        left = left.checked_sub(1).ok_or(Reason::new(
            "LimitReached",
            "this run has reached its limit of deletions",
        ))?;
        Ok(())
    };
    let clock = SimClock::new(now);
    let driver = Driver::new(
        Arc::new(store.clone()),
        Arc::new(clock),
        Arc::new(JsonDocuments::default()),
    )
    .controller(TtlAfterFinished::new(VERSION))
    // One task after the other, so that the output has an order.
    .workers(1)
    .guard(guard)
    .observer(|report| {
        if matches!(report, Report::Ended { .. }) {
            println!("{report}");
        }
    });
    let summary = driver.run_until_idle(pending()).await;
    let next_at = summary.next_at.map_or("never".to_owned(), |at| at.to_string());
    println!("next: {next_at}");
}

/// A cluster with Jobs that finished a minute before noon.
fn cluster() -> Result<ApiServer, Box<dyn Error>> {
    let mut server = ApiServer::new(VERSION, Catalog::builtin(VERSION));
    let jobs = server
        .catalog()
        .mapping("batch/v1", "Job")
        .ok_or("Jobs are always served")?;
    for (name, ttl, keep) in [
        ("audit", 30, "true"),
        ("backup", 30, "false"),
        ("cleanup", 30, "false"),
        ("import", 90, "false"),
        ("report", 30, "false"),
    ] {
        let job = format!(
            r#"{{"metadata": {{"namespace": "shop", "name": "{name}", "uid": "uid-of-{name}",
                "creationTimestamp": "2026-01-01T11:00:00Z", "labels": {{"{LABEL}": "{keep}"}}}},
            "spec": {{"ttlSecondsAfterFinished": {ttl}}},
            "status": {{"conditions": [
                {{"type": "Complete", "status": "True", "lastTransitionTime": "2026-01-01T11:59:00Z"}}
            ]}}}}"#
        );
        server.insert(jobs, Manifest::read(job.parse()?)?.object)?;
    }
    Ok(server)
}

/// An async runtime does this.
fn block_on<T>(work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    loop {
        if let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
}
