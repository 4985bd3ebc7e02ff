//! Measures pieces of work, and prints a line for each.

use std::{
    alloc::System, collections::BTreeMap, error::Error, hint::black_box, path::PathBuf, process::Command,
    time::Instant,
};

use kubegc_benches::shapes::Random;
use peakmem_alloc::{INSTRUMENTED_SYSTEM, PeakMemAlloc, PeakMemAllocTrait as _};

/// It lets the system's allocator grow allocations in place and provide zeroed pages: otherwise the times of
/// growing would be wrong.
#[global_allocator]
static ALLOCATOR: &PeakMemAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Best time of the calibration on the machine of upstream's figures, in nanoseconds an item.
///
/// It was not measured there, but computed from the times of a version of kubegc on that machine and on
/// another one with the calibration. Its error is about a tenth.
const CALIBRATION_NANOS: f64 = 600.0;
const CALIBRATION_RUNS: u32 = 15;

/// The figure to compare with.
pub(crate) enum Limit {
    /// Nanoseconds an item of upstream's Go code, if it was measured at this size.
    Upstream(Option<f64>),
    /// A figure of the same run, or a fixed one.
    Of(&'static str, f64),
}

/// The options of a measurement.
pub(crate) struct Measure {
    pub(crate) size: usize,
    pub(crate) runs: u32,
    /// Dumps to read.
    pub(crate) paths: Vec<PathBuf>,
    /// Run only the work of this name, once and without a table: for a profiler.
    only: Option<String>,
    instructions: bool,
    /// This machine's times divided by those of the machine of upstream's figures.
    scale: f64,
}

impl Measure {
    /// Calibrates, and prints the head of the table.
    pub(crate) fn new(
        size: usize,
        runs: u32,
        paths: Vec<PathBuf>,
        instructions: bool,
        only: Option<String>,
    ) -> Self {
        let mut measure = Self {
            size,
            runs,
            paths,
            only,
            instructions,
            scale: 1.0,
        };
        if measure.only.is_none() {
            // Upstream's figures are the best of several runs, too.
            let here = times(CALIBRATION_RUNS, TEXTS, texts, calibration)[0];
            measure.scale = here / CALIBRATION_NANOS;
            println!("{size} items, median of {runs}: ns an item; of dumps: ns a byte.");
            println!(
                "Upstream's figures are from another machine, scaled by {:.2}: {here:.1} ns of calibration here.\n",
                measure.scale
            );
            println!(
                "{:32} {:>10} {:>12}  {:26} {:>9} {:>6} {:>5}",
                "work", "ours", "instructions", "beside", "figure", "ratio", "goal"
            );
        }
        measure
    }

    /// Whether work with names of this beginning is measured.
    pub(crate) fn includes(&self, beginning: &str) -> bool {
        self.only.as_ref().is_none_or(|only| only.starts_with(beginning))
    }

    /// Measures work and prints its line. The input of each run is prepared and its output dropped outside of
    /// the measurement.
    pub(crate) fn row<I, O>(
        &self,
        name: &str,
        items: usize,
        limit: Limit,
        goal: impl Into<Option<f64>>,
        mut prepare: impl FnMut() -> I,
        mut work: impl FnMut(I) -> O,
    ) -> Result<f64, Box<dyn Error>> {
        if let Some(only) = &self.only {
            if only == name {
                drop(measured(&mut work, prepare()));
            }
            return Ok(f64::NAN);
        }
        let ours = self.time(items, &mut prepare, &mut work);
        let instructions = if self.instructions {
            format!("{:.1}", self.instructions_of(name)? / items as f64)
        } else {
            "-".to_owned()
        };
        self.print(name, ours, &instructions, limit, goal.into());
        Ok(ours)
    }

    /// Prints a figure that is not a time.
    pub(crate) fn figure(&self, name: &str, ours: f64, limit: Limit, goal: impl Into<Option<f64>>) {
        if self.only.is_none() {
            self.print(name, ours, "-", limit, goal.into());
        }
    }

    fn print(&self, name: &str, ours: f64, instructions: &str, limit: Limit, goal: Option<f64>) {
        let (beside, figure) = match limit {
            Limit::Upstream(figure) => ("upstream, scaled", figure.map(|figure| figure * self.scale)),
            Limit::Of(beside, figure) => (beside, Some(figure)),
        };
        let (figure, ratio) = figure.map_or(("-".to_owned(), "-".to_owned()), |figure| {
            (format!("{figure:.1}"), format!("{:.2}", ours / figure))
        });
        let goal = goal.map_or("-".to_owned(), |goal| format!("{goal:.2}"));
        println!("{name:32} {ours:>10.1} {instructions:>12}  {beside:26} {figure:>9} {ratio:>6} {goal:>5}");
    }

    /// The median time of an item; not a number if only one work is run.
    pub(crate) fn time<I, O>(
        &self,
        items: usize,
        prepare: impl FnMut() -> I,
        work: impl FnMut(I) -> O,
    ) -> f64 {
        if self.only.is_some() {
            return f64::NAN;
        }
        let times = times(self.runs, items, prepare, work);
        times[times.len() / 2]
    }

    /// The instructions of one run, counted by callgrind in a process that runs only this work.
    fn instructions_of(&self, name: &str) -> Result<f64, Box<dyn Error>> {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .args(["--collect-atstart=no", "--toggle-collect=*measure*measured*"])
            .arg(std::env::current_exe()?)
            .args(["--size", &self.size.to_string(), "--only", name])
            .args(&self.paths)
            .output()
            .map_err(|error| format!("valgrind: {error}"))?;
        let printed = String::from_utf8_lossy(&output.stderr);
        let collected = printed.lines().find_map(|line| line.split_once("Collected : "));
        let (_, count) = collected.ok_or_else(|| format!("valgrind counted nothing:\n{printed}"))?;
        Ok(count.trim().parse()?)
    }
}

/// The times of an item, in nanoseconds, the best first.
fn times<I, O>(
    runs: u32,
    items: usize,
    mut prepare: impl FnMut() -> I,
    mut work: impl FnMut(I) -> O,
) -> Vec<f64> {
    let mut times: Vec<f64> = (0..runs)
        .map(|_| {
            let input = prepare();
            let began = Instant::now();
            let output = measured(&mut work, input);
            let time = began.elapsed();
            drop(output);
            time.as_secs_f64() * 1e9 / items as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The bytes that the work's result holds, and the most that were allocated during the work.
pub(crate) fn memory<O>(work: impl FnOnce() -> O) -> (usize, usize) {
    ALLOCATOR.reset_peak_memory();
    let output = black_box(work());
    let peak = ALLOCATOR.get_peak_memory();
    // The allocator tells only the peak. An allocation of the peak's size, which is never written, raises the
    // peak by what is held.
    black_box(Vec::<u8>::with_capacity(peak));
    let held = ALLOCATOR.get_peak_memory() - peak;
    drop(output);
    (held, peak)
}

/// A function with a name, so that profilers separate it from the preparation.
#[inline(never)]
fn measured<I, O>(work: &mut impl FnMut(I) -> O, input: I) -> O {
    black_box(work(black_box(input)))
}

const TEXTS: usize = 200_000;

/// Texts in the form of uids.
fn texts() -> Vec<String> {
    let mut random = Random::new(7);
    (0..TEXTS).map(|_| random.uid().to_string()).collect()
}

/// Work of the standard library: it compares texts, waits for memory and grows a map, like the builder of an
/// owner graph.
fn calibration(texts: Vec<String>) -> usize {
    let table: BTreeMap<&str, usize> = texts.iter().map(String::as_str).zip(0..).collect();
    texts
        .iter()
        .rev()
        .map(|text| table[text.as_str()])
        .fold(0, usize::wrapping_add)
}
