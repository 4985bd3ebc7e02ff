//! A simulated node and two weeks of work on it: rollouts, rollbacks, nightly and weekly jobs, builds, and
//! containers that crash.
//!
//! Everything happens on the hour, and each run is the same. The caller runs a collector in between.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use kubegc::{
    core::Timestamp,
    sim::{
        ContainerSpec, ImageSpec, NodeSettings, PodSpec, SimClock, SimNode,
        runtime::{NodeError, RunningPod},
    },
};

/// Number of days.
pub const DAYS: u32 = 14;
/// Capacity of the disk.
pub const CAPACITY_BYTES: u64 = 100_000_000_000;
const MB: u64 = 1_000_000;
/// Bytes that other processes write per hour.
const GROWTH_PER_HOUR: u64 = 20 * MB;

/// A service or a job on the node.
struct App {
    name: &'static str,
    /// Layer that it shares with others.
    base: (&'static str, u64),
    /// Layer that all versions share, and layer of each version, in megabytes.
    own_mb: [u64; 2],
    log_mb_per_hour: u64,
}

const JVM: (&str, u64) = ("jvm", 460);
const PYTHON: (&str, u64) = ("python", 540);
const CUDA: (&str, u64) = ("cuda", 4_200);

const APPS: [App; 8] = [
    app("web", JVM, [480, 260], 40),
    app("checkout", JVM, [520, 310], 30),
    app("search", JVM, [900, 1_400], 20),
    app("ranker", CUDA, [600, 2_300], 10),
    app("reports", PYTHON, [700, 300], 5),
    app("training", CUDA, [1_900, 1_200], 25),
    app("backup", PYTHON, [120, 60], 5),
    app("builder", PYTHON, [300, 2_900], 15),
];

const fn app(name: &'static str, base: (&'static str, u64), own_mb: [u64; 2], log_mb_per_hour: u64) -> App {
    App {
        name,
        base,
        own_mb,
        log_mb_per_hour,
    }
}

impl App {
    fn tag(&self, version: u32) -> String {
        format!("registry.example/{}:{version}", self.name)
    }

    fn image(&self, version: u32) -> ImageSpec {
        let [common, versioned] = self.own_mb;
        ImageSpec::new(&self.tag(version))
            .layer(self.base.0, self.base.1 * MB)
            .layer(&format!("{} common", self.name), common * MB)
            .layer(&format!("{} {version}", self.name), versioned * MB)
    }
}

/// An event on the node: an app starts in a version, ends, or crashes and restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Event {
    Run { app: usize, version: u32 },
    End { app: usize },
    Crash { app: usize },
}

/// The events at an hour since the start.
fn events(hour: u32) -> Vec<Event> {
    let (day, of_day) = (hour / 24, hour % 24);
    let run = |app, version| Event::Run { app, version };
    let mut events = Vec::new();
    match (day, of_day) {
        // Services start, and are rolled out at office hours: each at its own pace.
        (0, 0) => events.extend((0..4).map(|app| run(app, 1))),
        (_, 10) => events.push(run(0, day + 2)),
        (_, 11) if day % 2 == 0 => events.push(run(1, day / 2 + 2)),
        (_, 14) if day % 2 == 1 => events.push(run(2, day / 2 + 2)),
        (_, 15) if day % 3 == 1 => events.push(run(3, day / 3 + 2)),
        // Two releases are rolled back after some days.
        (6, 16) => events.push(run(2, 3)),
        (9, 16) => events.push(run(3, 2)),
        // Jobs, and builds with a new image of tools each day.
        (_, 1) => events.push(run(6, 1)),
        (_, 2) => events.extend([Event::End { app: 6 }, run(4, day / 7 + 1)]),
        (_, 4) => events.push(Event::End { app: 4 }),
        (1 | 5 | 9 | 13, 18) => events.push(run(5, 1)),
        (1 | 5 | 9 | 13, 22) => events.push(Event::End { app: 5 }),
        (_, 9 | 13) => events.push(run(7, day + 1)),
        (_, 12 | 17) => events.push(Event::End { app: 7 }),
        (_, 3 | 6 | 20) => events.push(Event::Crash { app: 1 }),
        _ => {}
    }
    events
}

/// The node, and the images that were pulled again.
#[derive(Debug)]
pub struct Fortnight {
    node: SimNode,
    pods: BTreeMap<usize, RunningPod>,
    pulled: BTreeSet<Arc<str>>,
    /// Pulled bytes of each image that was pulled again, since the caller last cleared this.
    pub pulled_again: Vec<u64>,
}

impl Fortnight {
    /// The node before any pod runs: the system uses a part of the disk, which grows.
    pub fn new(clock: SimClock) -> Self {
        let settings = NodeSettings {
            capacity_bytes: CAPACITY_BYTES,
            ..NodeSettings::default()
        };
        let node = SimNode::new(clock, settings);
        node.fill(34_000 * MB);
        Self {
            node,
            pods: BTreeMap::new(),
            pulled: BTreeSet::new(),
            pulled_again: Vec::new(),
        }
    }

    /// An independent copy of the node with another clock.
    pub fn fork(&self, clock: SimClock) -> Self {
        Self {
            node: self.node.fork(clock),
            pods: self.pods.clone(),
            pulled: self.pulled.clone(),
            pulled_again: self.pulled_again.clone(),
        }
    }

    /// The node.
    pub const fn node(&self) -> &SimNode {
        &self.node
    }

    /// The usage of the disk, in percent.
    pub fn used_percent(&self) -> f64 {
        let disk = self.node.file_system();
        let available = disk.available_bytes.unwrap_or(0) as f64;
        100.0 - 100.0 * available / disk.capacity_bytes.unwrap_or(1) as f64
    }

    /// The bytes of the layers of all images.
    pub fn layers_bytes(&self) -> u64 {
        self.node.file_system().used_bytes.unwrap_or(0)
    }

    /// Writes what other processes and the running containers write in one minute of an hour, the first to
    /// the sixtieth.
    ///
    /// # Errors
    /// A container of a running pod is missing.
    pub fn write_minute(&self, minute: u64) -> Result<(), NodeError> {
        // The shares of an hour add up to its bytes.
        let share = |per_hour: u64| per_hour * minute / 60 - per_hour * (minute - 1) / 60;
        self.node.fill(share(GROWTH_PER_HOUR));
        for (app, pod) in &self.pods {
            for container in &pod.container_ids {
                self.node
                    .write_log(container, share(APPS[*app].log_mb_per_hour * MB))?;
            }
        }
        Ok(())
    }

    /// Applies the events of an hour.
    ///
    /// # Errors
    /// The node refuses: its disk is full.
    pub fn work(&mut self, hour: u32) -> Result<(), NodeError> {
        for event in events(hour) {
            match event {
                Event::Run { app, version } => {
                    self.end(app)?;
                    self.pull(&APPS[app].image(version))?;
                    let container = ContainerSpec::new(APPS[app].name, &APPS[app].tag(version));
                    let pod =
                        PodSpec::new("shop", &format!("{}-{hour}", APPS[app].name)).container(container);
                    self.pods.insert(app, self.node.run_pod(&pod)?);
                }
                Event::End { app } => self.end(app)?,
                Event::Crash { app } => {
                    if let Some(pod) = self.pods.get_mut(&app) {
                        for container in &mut pod.container_ids {
                            self.node.exit_container(container)?;
                            *container = self.node.restart_container(container)?;
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Deletes an app's pod, if it has one: its containers end, and are left to the collector.
    fn end(&mut self, app: usize) -> Result<(), NodeError> {
        if let Some(pod) = self.pods.remove(&app) {
            self.node.delete_pod(&pod.pod.uid)?;
            self.node.forget_pod(&pod.pod.uid);
        }
        Ok(())
    }

    fn pull(&mut self, image: &ImageSpec) -> Result<(), NodeError> {
        if self.node.image(&image.tag).is_some() {
            return Ok(());
        }
        let before = self.layers_bytes();
        self.node.pull(image)?;
        if !self.pulled.insert(Arc::clone(&image.tag)) {
            self.pulled_again.push(self.layers_bytes() - before);
        }
        Ok(())
    }
}

/// The time of an hour since the beginning.
pub fn hour_of(start: Timestamp, hour: u32) -> Timestamp {
    start.saturating_add(Duration::from_secs(3600 * u64::from(hour)))
}
