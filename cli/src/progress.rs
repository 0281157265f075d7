//! `Bar` draws the progress of one operation on a terminal.

use std::{
    fmt, io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, MutexGuard};

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use store::progress::{Progress, Tick};

const REDRAW: Duration = Duration::from_millis(120);
/// The bar takes what the rest of a line leaves.
const TEMPLATE: &str = "{msg} {wide_bar} {bytes}/{total_bytes}, {detail}{bytes_per_sec}, {eta} left";

/// The bar that is drawn now, for code that writes beside it.
static DRAWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

fn drawn() -> MutexGuard<'static, Option<ProgressBar>> {
    DRAWN.lock()
}

/// Writes to stderr without tearing the bar.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Beside;

impl io::Write for Beside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let write = || io::stderr().write_all(bytes).map(|()| bytes.len());
        let bar = drawn().clone();
        bar.map_or_else(write, |bar| bar.suspend(write))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Totals {
    files: AtomicU64,
    bytes: AtomicU64,
    new_bytes: AtomicU64,
}

/// A bar that is drawn until it is dropped.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: ProgressBar,
    totals: Arc<Totals>,
}

impl Bar {
    pub(crate) fn new() -> Self {
        let totals = Arc::new(Totals::default());
        let shared = Arc::clone(&totals);
        let detail = move |_: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = out.write_str(&shared.detail());
        };
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style.with_key("detail", detail).progress_chars("━╸ "));
        }
        *drawn() = Some(bar.clone());
        Self { bar, totals }
    }
}

impl Totals {
    fn detail(&self) -> String {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (bytes, new) = (load(&self.bytes), load(&self.new_bytes));
        let mut text = String::new();
        let files = load(&self.files);
        if files > 0 {
            text.push_str(&format!("{files} files, "));
        }
        if bytes > 0 && new > 0 {
            let known = 100.0 * (1.0 - new as f64 / bytes as f64).max(0.0);
            text.push_str(&format!("{known:.0}% known, "));
        }
        text
    }
}

impl Progress for Bar {
    fn begin(&self, stage: &'static str, _files: u64, bytes: u64) {
        self.bar.set_message(stage);
        self.bar.set_length(bytes);
        self.bar.reset();
        self.bar.enable_steady_tick(REDRAW);
    }

    fn tick(&self, tick: Tick) {
        self.totals.files.fetch_add(tick.files, Ordering::Relaxed);
        self.totals.bytes.fetch_add(tick.bytes, Ordering::Relaxed);
        self.totals.new_bytes.fetch_add(tick.new_bytes, Ordering::Relaxed);
        if tick.bytes > 0 {
            self.bar.inc(tick.bytes);
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        *drawn() = None;
        self.bar.finish_and_clear();
    }
}
