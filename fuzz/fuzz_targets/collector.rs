//! Hands a collector any sequence of inputs, sensible or not, and checks that it keeps its promises.
#![no_main]

use std::{collections::BTreeSet, num::NonZeroU32, sync::Arc, time::Duration};

use kubegc_core::Timestamp;
use kubegc_fuzz::{Choices, catalog};
use kubegc_objects::{Collector, Input, Operation, Output, Request, Response, Settings, WatchEvent, collector::{CallId, Misuse, MonitorId}};
use libfuzzer_sys::fuzz_target;

/// More outputs than any input here can bring about at once.
const OUTPUTS_MAX: usize = 10_000;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let mut run = Run::new(&mut choices);
    while !choices.is_over() {
        run.step(&mut choices);
    }
    run.drain();
});

struct Run {
    collector: Collector,
    now: Timestamp,
    calls: Vec<(CallId, Request)>,
    made: BTreeSet<CallId>,
    monitors: Vec<MonitorId>,
    is_strict: bool,
    calls_in_flight_max: usize,
}

impl Run {
    fn new(choices: &mut Choices<'_>) -> Self {
        let mut settings = Settings::new(choices.version());
        let flags = choices.byte();
        let is_strict = flags & 1 == 0;
        if !is_strict {
            settings = settings.as_upstream();
        }
        settings.attempt_to_delete_workers = 1 + u32::from(flags >> 1 & 3);
        settings.attempt_to_orphan_workers = 1 + u32::from(flags >> 3 & 3);
        settings.calls_in_flight_max = NonZeroU32::new(u32::from(flags >> 5 & 3));
        settings.absent_owners_max = 1 + choices.below(4);
        settings.record_conclusions = true;
        if flags >> 7 == 1 {
            settings.discovery_period = None;
        }
        let calls_in_flight_max = settings
            .calls_in_flight_max
            .map_or(usize::MAX, |max| max.get() as usize);
        Self {
            collector: Collector::new(settings),
            now: Timestamp::EPOCH,
            calls: Vec::new(),
            made: BTreeSet::new(),
            monitors: Vec::new(),
            is_strict,
            calls_in_flight_max,
        }
    }

    fn step(&mut self, choices: &mut Choices<'_>) {
        match choices.below(16) {
            0 => {
                let mask = if choices.flag() { 0xff } else { choices.byte() };
                let failed = if choices.below(4) == 0 {
                    vec!["example.com/v1".to_owned()]
                } else {
                    Vec::new()
                };
                let catalog = Arc::new(catalog(mask));
                self.handle(Input::Catalog { catalog, failed });
            }
            1..=6 => self.watch(choices),
            7 | 8 => self.drain(),
            9 => {
                let _one = self.poll();
            }
            10..=12 => self.response(choices),
            13 => {
                let seconds = choices.byte();
                let passed = if seconds == u8::MAX {
                    Duration::MAX
                } else {
                    Duration::from_millis(1 << (seconds % 24))
                };
                self.now = self.now.saturating_add(passed);
                self.handle(Input::Tick);
            }
            14 => self.misuse(choices),
            _ => self.compare_with_clone(),
        }
        assert_eq!(self.collector.calls_in_flight(), self.calls.len());
    }

    fn handle(&mut self, input: Input) {
        let reported = self.collector.handle(self.now, input);
        assert_eq!(reported, Ok(()), "an input that can be meant");
    }

    fn watch(&mut self, choices: &mut Choices<'_>) {
        if self.monitors.is_empty() {
            return;
        }
        let monitor = *choices.of(&self.monitors);
        let Some(resource) = self.collector.monitor(monitor) else {
            return;
        };
        let namespaced = resource.is_namespaced();
        let event = match choices.below(8) {
            0 => WatchEvent::Init,
            1 => WatchEvent::InitDone,
            2 => WatchEvent::InitApply(vec![Arc::new(choices.meta(namespaced))]),
            3 => WatchEvent::Delete(Arc::new(choices.meta(namespaced))),
            _ => WatchEvent::Apply(Arc::new(choices.meta(namespaced))),
        };
        self.handle(Input::Watch { monitor, event });
    }

    fn response(&mut self, choices: &mut Choices<'_>) {
        if self.calls.is_empty() {
            return;
        }
        let (call, request) = self.calls.swap_remove(choices.below(self.calls.len()));
        let mut meta = || {
            let mut meta = choices.meta(!request.target.namespace.is_empty());
            // Mostly the requested object.
            if meta.resource_version.as_str() != "0" {
                meta.uid = request.target.uid.clone();
                meta.name = request.target.name.clone();
                meta.namespace = request.target.namespace.clone();
            }
            Arc::new(meta)
        };
        let found = meta();
        let response = match choices.below(20) {
            0 => Response::Conflict,
            1 => Response::UnsupportedMediaType,
            2 => Response::Invalid,
            3 => Response::NoMapping,
            4 => Response::Unlisted,
            5 => Response::Refused {
                retry_after: Some(Duration::from_secs(choices.byte().into())),
            },
            6 => Response::Unknown,
            7..=9 => Response::NotFound,
            10 => Response::Applied(None),
            _ if request.operation.is_write() => Response::Applied(Some(found)),
            _ => Response::Found(found),
        };
        self.handle(Input::Response { call, response });
    }

    /// Polls until there is nothing to do: after a bounded number of outputs, and then for good.
    fn drain(&mut self) {
        for _ in 0..OUTPUTS_MAX {
            if self.poll() {
                let (wait, fingerprint) = (self.collector.poll_output(), self.collector.fingerprint());
                assert!(matches!(wait, Output::Wait(_)), "waiting, then {wait:?}");
                assert_eq!(self.collector.poll_output(), wait);
                assert_eq!(
                    self.collector.fingerprint(),
                    fingerprint,
                    "polling while waiting changed something"
                );
                if let Output::Wait(wait) = wait
                    && let Some(until) = wait.until
                {
                    // At the end of time there is nothing later.
                    let is_end = self.now == Timestamp::from_nanos(i64::MAX);
                    assert!(
                        until > self.now || is_end,
                        "waits for {until}, and it is {}",
                        self.now
                    );
                }
                return;
            }
        }
        panic!("{OUTPUTS_MAX} outputs and no end");
    }

    /// Takes one output. Responds to whether it was a wait.
    fn poll(&mut self) -> bool {
        match self.collector.poll_output() {
            Output::Watch(monitor) => self.monitors.push(monitor),
            Output::Unwatch(monitor) => self.monitors.retain(|known| *known != monitor),
            Output::Call(call) => {
                self.check(&call.request);
                assert!(self.made.insert(call.id), "{} was made before", call.id);
                self.calls.push((call.id, call.request));
                assert!(self.calls.len() <= self.calls_in_flight_max);
            }
            Output::Discover | Output::Event(_) => {}
            Output::Wait(_) => return true,
        }
        false
    }

    fn check(&self, request: &Request) {
        let catalog = self.collector.catalog();
        assert!(
            request.kind.index() < catalog.positions(),
            "a kind of the catalog: {request:?}"
        );
        let meant = (&catalog[request.kind].api_version(), &catalog[request.kind].kind);
        assert_eq!(
            meant,
            (&request.target.api_version.to_string(), &request.target.kind),
            "the kind that is meant: {request:?}"
        );
        let is_write = request.operation.is_write();
        if is_write {
            assert!(
                request.expect.uid.is_some(),
                "a write without an expectation: {request:?}"
            );
        }
        if self.is_strict || is_write {
            let is_placed = catalog[request.kind].is_namespaced() || request.target.namespace.is_empty();
            assert!(is_placed, "a cluster-scoped object in a namespace: {request:?}");
        }
        match &request.operation {
            Operation::Delete { wire, .. } => {
                assert_eq!(wire.uid.as_ref(), Some(&request.target.uid), "{request:?}");
                assert_eq!(request.expect.uid.as_ref(), Some(&request.target.uid), "{request:?}");
                if self.is_strict {
                    assert_eq!(wire, &request.expect);
                }
            }
            // Upstream's 1.13 does not escape what it puts into this patch; all texts here are plain.
            Operation::Patch { body, .. } => {
                let parsed: Result<serde_json::Value, _> = serde_json::from_slice(body);
                assert!(parsed.is_ok(), "not JSON: {}", String::from_utf8_lossy(body));
            }
            Operation::Get | Operation::Put { .. } => {}
        }
    }

    /// What cannot be meant is refused, and nothing changes.
    fn misuse(&mut self, choices: &mut Choices<'_>) {
        let fingerprint = self.collector.fingerprint();
        match choices.below(2) {
            0 => {
                let open: BTreeSet<CallId> = self.calls.iter().map(|(id, _)| *id).collect();
                if let Some(&call) = self.made.difference(&open).next() {
                    let response = Response::NotFound;
                    let reported = self.collector.handle(self.now, Input::Response { call, response });
                    assert_eq!(reported, Err(Misuse::UnknownCall(call)));
                }
            }
            _ if self.now > Timestamp::EPOCH => {
                // The collector need not have seen this time yet.
                self.handle(Input::Tick);
                let fingerprint = self.collector.fingerprint();
                let reported = self.collector.handle(Timestamp::EPOCH, Input::Tick);
                assert!(matches!(reported, Err(Misuse::TimeWentBack { .. })), "{reported:?}");
                assert_eq!(self.collector.fingerprint(), fingerprint);
                return;
            }
            _ => {}
        }
        assert_eq!(self.collector.fingerprint(), fingerprint);
    }

    /// A clone is the same collector: it wants the same.
    fn compare_with_clone(&mut self) {
        let mut clone = self.collector.clone();
        assert_eq!(clone.fingerprint(), self.collector.fingerprint());
        for _ in 0..OUTPUTS_MAX {
            let mut next = self.collector.clone();
            assert_eq!(next.poll_output(), clone.poll_output());
            if self.poll() {
                break;
            }
        }
    }
}
